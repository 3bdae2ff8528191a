// dev
