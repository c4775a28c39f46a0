import * as v from 'valibot';

/** What the LVM shell says to one command. */
export interface ShellAnswer {
  /** The subcommand that it answers. */
  readonly subcommand: string;
  readonly ok: boolean;
  /** As the exit code of a process would be: 5 for a command that failed, 3 for wrong arguments, 2 for no such command. */
  readonly exitCode: number;
  /** What the command reports, as JSON; empty for one that reports nothing. */
  readonly report: string;
  /** What went wrong, one error a line. */
  readonly errors: string;
}

/** The shell pretty-prints; only the end of an answer stands in a line like this. */
const lastLine = '\n  }\n';

/** Cuts what comes from the shell into answers, however it is cut into pieces on its way. */
export class AnswerReader {
  readonly #maxChars: number;
  #text = '';

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  /** The answers that are complete with this piece. */
  read(piece: string): ShellAnswer[] {
    // Only the new piece can hold the end, or complete it: long answers are not searched again and again.
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
    if (this.#text.length > this.#maxChars) throw new UnreadableAnswer('an answer has no end');
    return answers;
  }
}

/** What came from the shell is not what it promises to say; it cannot be trusted any more. */
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
  if (!result.success) throw new UnreadableAnswer(`an answer of another form: ${result.issues[0].message}`);
  const { report, log } = result.output;
  // Whatever else is in the log, its last row tells of the command as a whole.
  const outcome = log.at(-1);
  if (outcome?.log_object_type !== 'cmd') throw new UnreadableAnswer('an answer that does not tell how it ended');
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
    throw new UnreadableAnswer('an answer that is not JSON', { cause });
  }
}
