import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { buildPage } from './page.ts';

test('the page is one small file that needs no network', async () => {
  const { html, packages } = await buildPage();
  const bytes = gzipSync(html).length;
  assert.ok(bytes < 150 * 1024, `${bytes} bytes, gzipped`);
  assert.deepEqual([...packages], ['preact']);
  assert.doesNotMatch(html, /<(script|link|img)[^>]*\s(src|href)=(?!"data:)/i, 'something is loaded from elsewhere');
  assert.doesNotMatch(html, /url\((?!['"]?data:)/, 'a style loads something');
});
