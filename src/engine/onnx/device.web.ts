/** What a browser tells of its devices. Which of them computes is chosen by measuring (open.web.ts). */
import { memoryBytes } from '../../platform/machine.ts'

export const deviceMemory = async (): Promise<number> => memoryBytes()
