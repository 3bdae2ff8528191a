/** Preloaded into a process: what the optional dependencies are to an install that went without them. */
const Module = require('node:module')

const resolve = Module._resolveFilename
Module._resolveFilename = function (name, ...rest) {
  if (/^(onnxruntime-node|koffi)(\/|$)/.test(name)) {
    throw Object.assign(new Error(`Cannot find module '${name}'`), { code: 'MODULE_NOT_FOUND' })
  }
  return resolve.call(this, name, ...rest)
}
