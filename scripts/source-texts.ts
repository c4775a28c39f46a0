import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BinaryExpression, type Expression, type Node, SyntaxKind } from 'typescript/unstable/ast';
import {
  isBinaryExpression,
  isJsxText,
  isNoSubstitutionTemplateLiteral,
  isParenthesizedExpression,
  isStringLiteral,
  isTemplateExpression,
} from 'typescript/unstable/ast/is';
import { API } from 'typescript/unstable/sync';

/** What people may read, from the program, the page, the chart, the alerts and their runbooks. */
export interface Text {
  readonly file: string;
  /** Values that are known only later are "…". */
  readonly text: string;
}

const home = join(import.meta.dirname, '..');
const programs = { 'tsconfig.json': 'src/**/*.ts', 'web/tsconfig.json': 'web/src/**/*.{ts,tsx}' };
const documents = ['deploy/helm/*/templates/**/*.{yaml,tpl,txt}', 'deploy/helm/*/files/*.yaml', 'docs/runbooks.md'];

export function sourceTexts(): readonly Text[] {
  return [
    ...Object.entries(programs).flatMap(([config, files]) => textsOfProgram(config, files)),
    ...textsOfDocuments(),
  ];
}

function textsOfProgram(config: string, pattern: string): readonly Text[] {
  const api = new API({ cwd: home });
  try {
    const project = api.updateSnapshot({ openProjects: [join(home, config)] }).getProject(join(home, config));
    const files = globSync(pattern, { cwd: home }).filter((file) => !/\.test\.tsx?$|\/testing\//.test(file));
    return files.flatMap((file) => {
      const source = project?.program.getSourceFile(join(home, file));
      if (!source) throw new Error(`${config} does not contain ${file}`);
      return [...textsIn(source)].map((text) => ({ file, text }));
    });
  } finally {
    api.close();
  }
}

function* textsIn(node: Node): Generator<string> {
  const text = textOf(node);
  if (text !== undefined) yield text;
  for (const child of text === undefined ? childrenOf(node) : unknownIn(node)) yield* textsIn(child);
}

/** Undefined if it is no text. Texts that are joined by + are one. */
function textOf(node: Node): string | undefined {
  if (isStringLiteral(node) || isNoSubstitutionTemplateLiteral(node) || isJsxText(node)) return node.text;
  if (isTemplateExpression(node)) {
    return node.head.text + node.templateSpans.map(({ literal }) => `…${literal.text}`).join('');
  }
  if (isParenthesizedExpression(node)) return textOf(node.expression);
  if (!isSum(node)) return undefined;
  const parts = [textOf(node.left), textOf(node.right)];
  return parts.every((part) => part === undefined) ? undefined : parts.map((part) => part ?? '…').join('');
}

/** The expressions whose values are "…" in the text of the node; they may contain texts themselves. */
function unknownIn(node: Node): readonly Expression[] {
  if (isTemplateExpression(node)) return node.templateSpans.map(({ expression }) => expression);
  const parts = isSum(node) ? [node.left, node.right] : isParenthesizedExpression(node) ? [node.expression] : [];
  return parts.flatMap((part) => (textOf(part) === undefined ? [part] : unknownIn(part)));
}

function isSum(node: Node): node is BinaryExpression {
  return isBinaryExpression(node) && node.operatorToken.kind === SyntaxKind.PlusToken;
}

function childrenOf(node: Node): readonly Node[] {
  const children: Node[] = [];
  node.forEachChild((child) => void children.push(child));
  return children;
}

/** The lines of templates and alerts, without comments; the paragraphs of what is prose. */
function textsOfDocuments(): readonly Text[] {
  return globSync(documents, { cwd: home }).flatMap((file) => {
    const text = readFileSync(join(home, file), 'utf8');
    const parts = /\.(md|txt)$/.test(file)
      ? text.split(/\n(?=\n|\d\. |- )/).map((part) => part.replaceAll(/\s*\n\s*/g, ' '))
      : text.split('\n').filter((line) => !/^\s*#/.test(line));
    return parts.map((part) => ({ file, text: part }));
  });
}
