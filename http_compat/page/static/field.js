// Long texts in the field in which they are written.
//
// What the browser itself inserts takes Chromium the square of its length to draw, if it is one paragraph with
// emoji: seconds for 200,000 characters. What is put there at once does not, but it cannot be undone; so
// that is done only with long ones.

/** UTF-16 units of a text up to which the browser does as it likes. */
const LONG = 50_000;

/**
 * Inserts a long text that is pasted, instead of the browser.
 * @param {HTMLTextAreaElement} field
 * @param {ClipboardEvent} event of the field
 * @returns {boolean} false: the browser does
 */
export function pasted(field, event) {
  const text = event.clipboardData?.getData("text/plain") ?? "";
  if (text.length <= LONG) return false;
  event.preventDefault();
  field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
  return true;
}

/**
 * Puts a long text into the field anew, before that is shown again: it is drawn anew then.
 * @param {HTMLTextAreaElement} field
 */
export function putAnew(field) {
  const { value, selectionStart, selectionEnd } = field;
  if (value.length <= LONG) return;
  field.value = "";
  field.value = value;
  field.setSelectionRange(selectionStart, selectionEnd);
}
