import { once } from 'node:events';
import { systemClock } from '../../base/clock.ts';
import { command } from '../../base/command.ts';
import { InvalidInput } from '../../base/errors.ts';
import { type FlagType, flag } from '../../base/flags.ts';
import { withSession } from '../connect.ts';
import { clusterFlags } from '../flags.ts';

const { output: _, ...cluster } = clusterFlags;

const portType: FlagType<number> = {
  placeholder: 'port',
  parse(word) {
    const port = Number(word);
    if (!/^\d+$/.test(word) || port > 65_535) throw new InvalidInput('use a number from 0 to 65535');
    return port;
  },
};

/** It opens no browser: the address, with its token, would be visible among the processes of the machine. */
export const pageCommand = command({
  summary: 'serve a live page about volumes, nodes and moves, for your browser only',
  examples: [
    'kubectl moorage ui                             # prints the address; Ctrl-C ends it',
    'kubectl moorage ui --port 8443                 # for ssh -L 8443:127.0.0.1:8443',
  ],
  flags: {
    port: flag({
      name: 'port',
      type: portType,
      default: 0,
      description: 'Port on 127.0.0.1; 0 for a free one',
    }),
    ...cluster,
  },
  async run({ port, ...target }, { env, version, print, screen, signal }) {
    const [{ Page }, { readPage }] = await Promise.all([import('./page-process.ts'), import('./page-file.ts')]);
    const html = await readPage();
    await withSession(target, env, async ({ client, context }) => {
      const page = new Page({ client, clock: systemClock, html, port, cluster: context, version });
      const address = await page.start();
      try {
        print(address);
        screen.write('It is only for you: the address contains a token. Ctrl-C ends it.\n');
        if (!signal.aborted) await once(signal, 'abort');
      } finally {
        await page.stop();
      }
    });
  },
});
