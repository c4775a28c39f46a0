// npm run image [-- DIR]: builds the image as an OCI archive, with an SBOM.
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../src/base/errors.ts';
import { formatBytes } from '../src/base/quantity.ts';
import { stage } from '../worlds/host/progress.ts';
import { buildImage, imageName } from './image/build-image.ts';

const [dir = join(import.meta.dirname, '..', 'dist', 'image')] = process.argv.slice(2);
try {
  const image = await stage('Image', (say) => buildImage(dir, say, 'newest'));
  const sizes = image.layers.map(({ title, content }) => `  ${title.padEnd(16)}${formatBytes(BigInt(content.length))}`);
  console.log(`${imageName}\n${image.digest}\n${sizes.join('\n')}
${image.archive} (${formatBytes(BigInt((await stat(image.archive)).size))})
${image.sbom}`);
} catch (error) {
  console.error(`npm run image: ${messageOf(error)}`);
  process.exitCode = 1;
}
