// The page: joins the parts, and puts what they know into the document.

import { addressFor, Connection } from "./connection.js";
import { pasted, putAnew } from "./field.js";
import { Log } from "./log.js";
import { remember, remembered } from "./memory.js";
import { Playback } from "./playback.js";
import { Reader } from "./reader.js";
import { Session } from "./session.js";
import { write } from "./typist.js";
import { shortName, VoiceList } from "./voices.js";

const SAMPLE_TEXT = `A voice should begin before the thought is finished.

This page plays what the engine makes, the moment it is made. Every word is marked as you hear it, and \
the numbers below say how far the sound is ahead of you.`;

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
function find(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`There is no ${kind.name} #${id}.`);
  return found;
}

const button = (/** @type {string} */ id) => find(id, HTMLButtonElement);
const element = (/** @type {string} */ id) => find(id, HTMLElement);

const text = find("text", HTMLTextAreaElement);
const reading = element("reading");
const listen = find("listen", HTMLInputElement);
const voice = find("voice", HTMLSelectElement);
const speed = find("speed", HTMLInputElement);
const unlock = find("unlock", HTMLFormElement);
const token = find("token", HTMLInputElement);

const list = new VoiceList(voice);
const reader = new Reader(reading);
const log = new Log(find("log", HTMLDetailsElement), element("log-list"), element("log-count"));
const playback = new Playback();

/** @type {Connection} */
let connection;
/** @type {Session} */
let session;
/** Stops what is being written live. */
let stopWriting = () => {};
/** Message of the last connection that failed; it goes when there is one. */
let broken = "";
/** What was last told of how a text ended. */
let ended = "";
/** Whether the text is being written: nothing takes it away then. */
let editing = false;
/** The speed that the listener set, now or at an earlier visit; 0: none. */
let wishedSpeed = Number(remembered("speed"));

// --- what the listener is told ------------------------------------------------------------------------

/** @param {string} sentence */
function notice(sentence) {
  const focused = document.activeElement;
  element("notice").hidden = !sentence;
  put(element("notice-text"), sentence);
  refocus(focused);
}

/**
 * Moves the focus from what cannot have it any more to the text, where else it would be lost.
 * @param {Element | null} focused what had it before
 */
function refocus(focused) {
  if (!focused?.matches(":disabled, [hidden], [hidden] *")) return;
  (reading.hidden ? button("speak") : reading).focus({ preventScroll: true });
}

/** @type {Record<import("./connection.js").State, string>} */
const CONNECTION = {
  closed: "Not connected",
  connecting: "Connecting …",
  open: "Connected",
  waiting: "No engine, trying again …",
  locked: "Needs the token",
};

/** @param {string} [why] */
function connectionChanged(why) {
  const { state } = connection;
  element("connection").dataset.state = state;
  if (state !== "connecting" || !broken) element("connection").textContent = CONNECTION[state];
  if (state === "open" && broken) {
    if (element("notice-text").textContent === broken) notice("");
    broken = "";
  }
  if (why) {
    broken = why;
    notice(why);
  }
  const focused = document.activeElement;
  unlock.hidden = state !== "locked";
  refocus(focused);
  if (state === "locked") token.focus();
  update();
}

/** @type {Record<import("./hearing.js").Activity, string>} */
const ACTIVITY = {
  idle: "Ready",
  starting: "Waiting for the first sound",
  filling: "Waiting for more sound",
  speaking: "Reading",
  paused: "Paused",
};

function status() {
  const { activity, current } = session;
  if (activity === "idle") return ended || (session.listening ? "Listening" : ACTIVITY.idle);
  if (!current || activity === "starting") return ACTIVITY[activity];
  const known = session.voices.find((one) => one.id === current.voice);
  const name = known ? shortName(known) : current.voice;
  return [ACTIVITY[activity], name, current.own ? "" : "for another program"].filter(Boolean).join(" · ");
}

/** Sets a text only if it is another one: a live region would tell it again. */
function put(/** @type {HTMLElement} */ where, /** @type {string} */ what) {
  if (where.textContent !== what) where.textContent = what;
}

function update() {
  const { activity } = session;
  const focused = document.activeElement;
  const idle = activity === "idle";
  put(element("status"), status());
  button("pause").disabled = idle;
  put(button("pause"), activity === "paused" ? "Resume" : "Pause");
  button("stop").disabled = idle;
  button("edit").hidden = reading.hidden;
  reading.toggleAttribute("data-live", !idle);
  element("hint").hidden = !playback.suspended || idle;
  refocus(focused);
  voices();
  measures();
}

function measures() {
  const { firstSoundMs, current } = session;
  const rtf = current?.rtf;
  put(element("first-sound"), firstSoundMs === undefined ? "–" : `${Math.round(firstSoundMs)} ms`);
  put(element("rtf"), rtf === undefined ? "–" : rtf.toFixed(2));
  put(element("buffered"), `${Math.round(playback.bufferedMs / 10) * 10} ms`);
  put(element("gaps"), String(session.gaps));
  put(element("underruns"), String(session.underruns));
}

/** Lists the voices, if they are others than before. */
function voices() {
  if (!list.show(session.voices, remembered("voice"))) return;
  remark();
  if (!wishedSpeed) setSpeed(ownSpeed());
}

/** What the engine speaks the chosen voice at, if nobody wishes another speed. */
function ownSpeed() {
  return list.chosen?.speed ?? 1;
}

/** Says what stands in the way of a voice. */
function remark() {
  const why = list.chosen?.unreadable ?? "";
  element("voice-remark").hidden = !why;
  put(element("voice-remark"), why);
}

// --- the text -----------------------------------------------------------------------------------------

function read() {
  const focused = document.activeElement;
  editing = false;
  text.hidden = true;
  reading.hidden = false;
  button("edit").hidden = false;
  refocus(focused);
}

function edit() {
  editing = true;
  ended = "";
  if (text.hidden) putAnew(text);
  text.hidden = false;
  reading.hidden = true;
  text.focus();
  update();
}

function showText() {
  const { current } = session;
  if (!current) return;
  if (!current.own) {
    if (editing && text.value) return;
    read();
  }
  reader.show(current.shown.toString());
}

function mark() {
  const { current, activity } = session;
  if (!current || reading.hidden) return;
  if (activity === "idle") {
    reader.mark();
  } else if (playback.begun) {
    const { segment, word } = current.at(playback.heard);
    reader.mark(segment, word);
  }
}

/** Marks words, as often as the screen shows something. */
function frame() {
  mark();
  requestAnimationFrame(frame);
}

// --- what the listener wants --------------------------------------------------------------------------

function manner() {
  return { voice: voice.value || "af_heart", speed: Number(speed.value) };
}

/** Has the sound on; false, with a notice, if there can be none. */
async function sounds() {
  const obstacle = Playback.obstacle();
  if (obstacle) {
    notice(obstacle);
    return false;
  }
  try {
    await playback.open();
  } catch (error) {
    notice(`The sound could not be started: ${error instanceof Error ? error.message : error}`);
    return false;
  }
  session.opened();
  update();
  return true;
}

/** @param {boolean} live whether it is sent in small pieces */
async function speak(live) {
  const wanted = text.value;
  if (!wanted.trim()) {
    notice("There is no text yet.");
    edit();
    return;
  }
  notice(connection.state === "open" ? "" : broken);
  ended = "";
  if (!(await sounds())) return;
  const speech = session.speak(wanted, manner(), live);
  if (!speech) return;
  stopWriting();
  if (live) {
    stopWriting = write(wanted, {
      append: (piece) => session.append(speech, piece),
      flush: () => session.flush(speech),
      end: () => session.end(speech),
    });
  }
  read();
  reader.show(speech.text.toString());
  reading.focus({ preventScroll: true });
}

function stop() {
  session.stop();
}

function pause() {
  if (session.activity === "paused") session.resume();
  else session.pause();
}

async function listenToAll() {
  if (listen.checked && !(await sounds())) listen.checked = false;
  ended = "";
  session.listen(listen.checked); // it may have been switched again meanwhile
  update();
}

/** @param {KeyboardEvent} event */
function key(event) {
  const { target } = event;
  const name = event.key.length > 1 ? event.key : event.key.toLowerCase(); // also with caps lock
  if (event.isComposing || event.altKey) return;
  if (name === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    void speak(false);
    return;
  }
  if (event.ctrlKey || event.metaKey) return;
  if (name === "Escape") stop();
  const free = target === document.body || target === reading;
  if (!free || event.repeat) return;
  if (name === " " && session.activity !== "idle") pause();
  else if (name === "e" && !reading.hidden) edit();
  else if (name === "l") listen.click();
  else return;
  event.preventDefault();
}

// --- the beginning ------------------------------------------------------------------------------------

/** Why there is no connection. A browser does not tell pages; our own server can ask the engine. */
async function explain() {
  try {
    const ready = await fetch("/ready", { cache: "no-store" });
    if (ready.ok) {
      return (
        "The engine runs but does not let this page in: open the page at the address that " +
        "the server logged, or put this one into the engine's setting `origins`."
      );
    }
    const body = await ready.json();
    return String(body.error.message);
  } catch {
    return "Neither the engine nor the server of this page answers; start them with `make up`.";
  }
}

function listenToControls() {
  button("speak").addEventListener("click", () => void speak(false));
  button("type").addEventListener("click", () => void speak(true));
  button("pause").addEventListener("click", pause);
  button("stop").addEventListener("click", stop);
  button("edit").addEventListener("click", edit);
  button("sound").addEventListener("click", () => void sounds());
  button("notice-close").addEventListener("click", () => notice(""));
  listen.addEventListener("change", () => void listenToAll());
  document.addEventListener("keydown", key);
  text.addEventListener("input", () => (editing = true));
  text.addEventListener("paste", (event) => {
    if (pasted(text, event)) editing = true;
  });
  voice.addEventListener("change", () => {
    remember("voice", voice.value);
    const own = ownSpeed();
    // A voice that has a speed of its own comes with it; all others have the one that was wished.
    setSpeed(own === 1 ? wishedSpeed || 1 : own);
    remark();
    session.configure(manner());
  });
  speed.addEventListener("input", () => setSpeed(Number(speed.value)));
  speed.addEventListener("change", () => {
    wishedSpeed = Number(speed.value);
    remember("speed", speed.value);
    session.configure(manner());
  });
  unlock.addEventListener("submit", (event) => {
    event.preventDefault();
    connection.token = token.value;
    notice("");
    connection.open();
  });
}

/** @param {number} value */
function setSpeed(value) {
  speed.value = String(value);
  put(element("speed-shown"), `${Number(speed.value).toFixed(2)}×`);
}

async function start() {
  const answer = await fetch("/page/page.json", { cache: "no-store" });
  const { engine, token_needed: locked } = await answer.json();
  connection = new Connection(addressFor(location.protocol, engine), { explain });
  session = new Session(connection, playback);
  connection.onstate = connectionChanged;
  connection.ontraffic = (direction, message) => log.message(direction, message);
  const hear = connection.onframe;
  connection.onframe = (one) => {
    log.frame(one);
    hear(one);
  };
  session.onchange = () => {
    update();
    mark(); // also in a tab that is not seen, where there are no animation frames
  };
  session.ontext = showText;
  session.onnotice = notice;
  session.onended = (how) => {
    stopWriting();
    ended = how;
    update();
  };
  text.value ||= SAMPLE_TEXT;
  setSpeed(wishedSpeed || 1);
  listenToControls();
  for (const control of [button("speak"), button("type"), listen]) control.disabled = false;
  const obstacle = Playback.obstacle();
  if (obstacle) notice(obstacle);
  if (locked) {
    connection.state = "locked";
    connectionChanged();
  } else {
    connection.open();
  }
  requestAnimationFrame(frame);
}

start().catch((error) => {
  console.error(error);
  notice("The page could not be started: its server does not answer. Reload it when that runs again.");
});
