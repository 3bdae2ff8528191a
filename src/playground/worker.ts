/** The page's worker: computes, so that the page stays smooth. The site's files lie beside the folder of its own. */
import { setReportPage } from '../browser.ts'
import { answerCalls, type Port } from './remote.ts'
import { hostOver } from './work.ts'

setReportPage(new URL('../report/', location.href))
answerCalls(globalThis as unknown as Port, hostOver('/runs', new URL('../policy/', location.href)))
