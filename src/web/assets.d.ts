/** A style is imported for its effect: the build puts it beside the script. */
declare module '*.css'
