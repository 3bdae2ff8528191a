const worker = new Worker(new URL('./worker.web.ts', import.meta.url), { type: 'module' })
const board = document.querySelector('#board')!
worker.addEventListener('message', ({ data }) => board.append(`${data}\n`))
