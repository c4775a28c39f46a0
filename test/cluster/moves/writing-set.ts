import type { Cluster } from '../../../worlds/cluster/cluster.ts';
import { eventually } from '../../../worlds/host/eventually.ts';
import { StatefulSet, type StatefulSetOptions } from '../stateful-set.ts';

/**
 * Writes a large file once, then numbered blocks whose names are their checksums, for ever. Block N is on the disk before
 * `acked` is N. At each start it checks what it finds: what was acknowledged must be there, and be right; a block that was
 * not may be torn by a power loss. Then it records how long nothing was written, and the last block that it has found. The
 * copy of `acked` in its container shows that it writes since then.
 */
const script = `
  cd /data && mkdir -p ring
  sum() { sha256sum | cut -c1-64; }
  if [ -e bulk.sum ]; then
    [ "$(sum <bulk)" = "$(cat bulk.sum)" ] || echo "bulk is not what was written" >>broken
    acked=$(cat acked) top=0
    for block in ring/*; do
      number=\${block#ring/} number=\${number%%.*}
      if [ "$(sum <$block)" = "\${block##*.}" ]; then [ $number -lt $top ] || top=$number
      elif [ $number -gt $acked ]; then rm $block
      else echo "block $number is not what was written" >>broken
      fi
    done
    number=$((acked - 12))
    while [ $((number += 1)) -le $acked ]; do
      [ $number -lt 1 ] || ls ring/$number.* >/dev/null 2>&1 || echo "block $number is lost" >>broken
    done
    echo "$(($(date +%s) - $(stat -c %Y acked))) $top" >>starts
  else
    head -c 12582912 /dev/urandom >bulk && sync && sum <bulk >bulk.new && mv bulk.new bulk.sum
    rm -f ring/* starts; touch starts; top=0
  fi
  while :; do
    top=$((top + 1))
    head -c 65536 /dev/urandom >block && mv block ring/$top.$(sum <block) && rm -f ring/$((top - 16)).* && sync || exit 1
    echo $top >acked.new && mv acked.new acked && cp acked /acked
    sleep 0.2
  done`;

/** What a pod has written. */
export interface Written {
  /** The last block that is on the disk. */
  readonly acked: number;
  /** What each start after the first one has found. */
  readonly starts: readonly { readonly pauseSeconds: number; readonly found: number }[];
  /** What is not as it was written. */
  readonly broken: string;
}

/** A StatefulSet of one pod that writes checksummed data all the time. */
export class WritingSet {
  readonly set: StatefulSet;
  readonly claimName: string;
  readonly #cluster: Cluster;

  private constructor(cluster: Cluster, set: StatefulSet) {
    this.#cluster = cluster;
    this.set = set;
    this.claimName = `data-${set.name}-0`;
  }

  static async create(
    cluster: Cluster,
    name: string,
    options: Pick<StatefulSetOptions, 'storageClass' | 'onNodes'>,
  ): Promise<WritingSet> {
    return new WritingSet(cluster, await StatefulSet.create(cluster, name, { ...options, size: '64Mi', script }));
  }

  /** Waits until it runs and writes: more than `after` blocks. */
  async writes(after = 0): Promise<Written> {
    return eventually(
      `pod ${this.set.name}-0 writes`,
      async () => {
        const written = await this.#read();
        return written.acked > after && written;
      },
      { explain: () => this.#explain() },
    );
  }

  async #read(): Promise<Written> {
    const read = 'cd /data && cat /acked && if [ -e broken ]; then tr "\\n" ";" <broken; fi && echo && cat starts';
    const output = await this.#cluster.kubectl('exec', `${this.set.name}-0`, '--', 'sh', '-ec', read);
    const [acked, broken = '', ...starts] = output.trim().split('\n');
    return {
      acked: Number(acked),
      broken,
      starts: starts.map((line) => {
        const [pauseSeconds, found] = line.split(' ').map(Number);
        return { pauseSeconds: pauseSeconds ?? 0, found: found ?? 0 };
      }),
    };
  }

  async #explain(): Promise<string> {
    const described = await this.#cluster.kubectl('describe', 'pod', `${this.set.name}-0`).catch(String);
    return `${described}\n${await this.#cluster.tails()}`;
  }
}
