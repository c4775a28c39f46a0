/**
 * Runs in the browser, as text: scrolls an element by a part of its height in each frame, and returns how long each frame took,
 * in milliseconds.
 */
export function scrollFrames(selector: string, frames: number): string {
  return `new Promise((resolve) => {
    const element = document.querySelector(${JSON.stringify(selector)});
    const times = [];
    let last;
    const step = (now) => {
      if (last !== undefined) times.push(now - last);
      last = now;
      if (times.length >= ${frames}) return resolve(times);
      const isAtEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - 1;
      element.scrollTop = isAtEnd ? 0 : element.scrollTop + element.clientHeight * 0.7;
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  })`;
}

/** Runs in the browser: types a text into the search box, a letter per frame, and returns how long each frame took. */
export function typingFrames(text: string): string {
  return `new Promise((resolve) => {
    const input = document.getElementById('search');
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
    const times = [];
    let last;
    let typed = 0;
    const step = (now) => {
      if (last !== undefined) times.push(now - last);
      last = now;
      if (typed > ${text.length}) return resolve(times);
      set.call(input, ${JSON.stringify(text)}.slice(0, typed));
      typed += 1;
      input.dispatchEvent(new Event('input', { bubbles: true }));
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  })`;
}
