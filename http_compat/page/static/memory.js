// What the page remembers from one visit to the next. A browser may forbid that; then it is nothing.

/**
 * @param {string} name
 * @returns {string | null} as it was kept
 */
export function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/**
 * @param {string} name
 * @param {string} value
 */
export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // forbidden, or full: the page works without
  }
}
