/** What preferences change. */

import assert from "node:assert/strict";
import test from "node:test";
import { View } from "./commands";
import { FakePlayer, folder, nobody, SPEAKING } from "./fake-player";
import { ALL_PREFERENCES, renew } from "./raycast";
import { fake, hud, said, shown, there } from "./setup";

/** What each preference changes: two values, and what tells them apart. */
const EFFECTS: Record<string, () => Promise<void>> = {
  async whenBusy() {
    for (const [whenBusy, title] of [
      ["replace", "Speaking 3 characters"],
      ["queue", "Queued 3 characters"],
      ["toggle", "Speaking 3 characters"],
    ] as const) {
      fake.asked = [];
      const told = await shown("speak-clipboard", { clipboard: "Hi.", preferences: { whenBusy } });
      assert.deepEqual(told, hud(title));
      assert.equal(said().mode, whenBusy);
    }
    fake.answers.speak = () => ({ type: "ack" });
    const preferences = { whenBusy: "toggle" };
    assert.deepEqual(
      await shown("speak-clipboard", { clipboard: "Hi.", preferences }),
      hud("Stopped"),
    );
  },
  async clipboardFallback() {
    const preferences = { clipboardFallback: false };
    const [toast] = await shown("speak-selection", { clipboard: "Copied.", preferences });
    assert.equal(toast!.title, "Nothing is selected.");
    assert.deepEqual(fake.asked, []);
  },
  async voice() {
    await shown("speak-clipboard", { clipboard: "Hi." });
    assert.equal(said().voice, undefined);
    fake.asked = [];
    await shown("speak-clipboard", { clipboard: "Hi.", preferences: { voice: " bf_emma " } });
    assert.equal(said().voice, "bf_emma");
  },
  async speed() {
    await shown("speak-clipboard", { clipboard: "Hi." });
    assert.equal(said().speed, undefined);
    fake.asked = [];
    await shown("speak-clipboard", { clipboard: "Hi.", preferences: { speed: "1.5" } });
    assert.equal(said().speed, 1.5);
    assert.deepEqual(
      await shown("faster", { preferences: { speed: "1.5" } }),
      hud("Speed 1.1; texts from Raycast keep 1.5 of the preferences"),
    );
  },
  async speedStep() {
    assert.deepEqual(await shown("faster"), hud("Speed 1.1"));
    assert.deepEqual(
      await shown("slower", { preferences: { speedStep: "0.25" } }),
      hud("Speed 0.75"),
    );
  },
  async markdown() {
    for (const markdown of ["auto", "on", "off"]) {
      fake.asked = [];
      await shown("speak-clipboard", { clipboard: "Hi.", preferences: { markdown } });
      assert.deepEqual(said().options, { markdown });
    }
  },
  async confirm() {
    assert.deepEqual(await shown("stop", { preferences: { confirm: false } }), [
      { kind: "closed" },
    ]);
    const preferences = { confirm: false, address: await nobody() };
    assert.equal((await shown("stop", { preferences }))[0]!.style, "failure");
  },
  async address() {
    const other = await FakePlayer.start();
    await shown("stop", { preferences: { address: other.url } });
    assert.deepEqual([fake.types, other.types], [[], ["status", "stop"]]);
  },
  async dataFolder() {
    const other = await FakePlayer.start();
    const dataFolder = folder({ player: other.url, token_file: null });
    await shown("stop", { preferences: { dataFolder } });
    assert.deepEqual([fake.types, other.types], [[], ["status", "stop"]]);
  },
  async token() {
    await shown("stop", { preferences: { token: "another-token-of-mine" } });
    assert.deepEqual(fake.tokens, ["Bearer another-token-of-mine"]);
  },
  async unit() {
    fake.answers.status = () => SPEAKING;
    assert.deepEqual(await shown("skip-forward"), hud("Next sentence"));
    assert.deepEqual(
      await shown("skip-forward", { preferences: { unit: "item" } }),
      hud("Next text"),
    );
  },
  async showTitle() {
    fake.answers.status = () => SPEAKING;
    for (const [showTitle, title] of [
      [false, undefined],
      [true, "Speaking"],
    ]) {
      renew({ preferences: { ...there, showTitle } });
      const menu = await View.open("speech-status");
      assert.equal(menu.root.title, title);
      await menu.close();
    }
  },
};

for (const [name, effect] of Object.entries(EFFECTS)) {
  test(`the preference ${name} changes something`, effect);
}

test("there is a test for every preference", () => {
  assert.deepEqual(Object.keys(EFFECTS).sort(), ALL_PREFERENCES.map(({ name }) => name).sort());
});
