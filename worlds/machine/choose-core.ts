import { readFile } from 'node:fs/promises';

/**
 * One of the cores that this process may run on. Kernel and user processes of a machine switch at every system call, which
 * is fast on one core and 2.5 to 4 times slower across cores, so each machine gets one core.
 * Test files that run in parallel start with different cores.
 */
export async function chooseCore(number: number): Promise<number> {
  const worker = Number(process.env['NODE_TEST_WORKER_ID'] ?? 0); // of Node's test runner
  const status = await readFile('/proc/self/status', 'utf8');
  const cores = parseCores(/^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1] ?? '0');
  return cores[(number + worker) % cores.length] ?? 0;
}

/** "0-2,5" → 0, 1, 2, 5 */
function parseCores(list: string): number[] {
  return list.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}
