import * as v from 'valibot';

/** The answer of the LVM shell to one command. */
export interface ShellAnswer {
  /** The subcommand that was run. */
  readonly subcommand: string;
  readonly ok: boolean;
  /** Like the exit code of a process: 5 for a failed command, 3 for invalid arguments, 2 for an unknown command. */
  readonly exitCode: number;
  /** The report as JSON; empty if the command has none. */
  readonly report: string;
  /** Error messages, one per line. */
  readonly errors: string;
}

/** The shell pretty-prints; only the end of an answer is a line like this. */
const lastLine = '\n  }\n';

/** Splits the output of the shell into answers, however it arrives in pieces. */
export class AnswerReader {
  readonly #maxChars: number;
  #text = '';

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  /** Returns the answers that this piece completes. */
  read(piece: string): ShellAnswer[] {
    // Only the new piece can contain or complete the end: do not search long answers again.
    let from = Math.max(0, this.#text.length - lastLine.length);
    this.#text += piece;
    const answers: ShellAnswer[] = [];
    for (;;) {
      const end = this.#text.indexOf(lastLine, from);
      if (end < 0) break;
      answers.push(parseAnswer(this.#text.slice(0, end + lastLine.length)));
      this.#text = this.#text.slice(end + lastLine.length);
      from = 0;
    }
    if (this.#text.length > this.#maxChars) throw new UnreadableAnswer('an answer exceeds the maximum length');
    return answers;
  }
}

/** The output of the shell has an unexpected format, so the shell cannot be trusted any more. */
export class UnreadableAnswer extends Error {}

const answerSchema = v.object({
  report: v.optional(v.unknown()),
  log: v.pipe(
    v.array(
      v.object({
        log_type: v.string(),
        log_object_type: v.string(),
        log_object_name: v.string(),
        log_message: v.string(),
        log_ret_code: v.pipe(v.string(), v.regex(/^\d{1,3}$/)),
      }),
    ),
    v.minLength(1),
  ),
});

const success = '1';

export function parseAnswer(json: string): ShellAnswer {
  const result = v.safeParse(answerSchema, parseJson(json));
  if (!result.success) throw new UnreadableAnswer(`an answer has an unexpected format: ${result.issues[0].message}`);
  const { report, log } = result.output;
  // The last row of the log is the result of the whole command.
  const outcome = log.at(-1);
  if (outcome?.log_object_type !== 'cmd') throw new UnreadableAnswer('an answer has no result of the command');
  return {
    subcommand: outcome.log_object_name,
    ok: outcome.log_ret_code === success,
    exitCode: Number(outcome.log_ret_code),
    report: report === undefined ? '' : JSON.stringify({ report }),
    errors: log
      .filter((row) => row.log_type === 'error')
      .map((row) => row.log_message)
      .join('\n'),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new UnreadableAnswer('an answer is not JSON', { cause });
  }
}
