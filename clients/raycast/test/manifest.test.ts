/** What the manifest says is so, and as Raycast wants it. */

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import test from "node:test";
import manifest from "../package.json";
import { WITH_VIEW, WITHOUT_VIEW } from "./commands";
import { ALL_PREFERENCES } from "./raycast";

test("the manifest names what is there", () => {
  const commands = [...Object.keys(WITH_VIEW), ...Object.keys(WITHOUT_VIEW)];
  assert.deepEqual(manifest.commands.map(({ name }) => name).sort(), commands.sort());
  for (const { name, mode } of manifest.commands) {
    assert.equal(mode === "no-view", name in WITHOUT_VIEW, name);
    assert.ok(
      ["ts", "tsx"].some((type) => existsSync(`src/${name}.${type}`)),
      name,
    );
  }
  const icon = readFileSync(`assets/${manifest.icon}`);
  assert.deepEqual([icon.readUInt32BE(16), icon.readUInt32BE(20)], [512, 512]);
});

test("the documents list every command", () => {
  for (const file of ["README.md", "../../docs/clients.md"]) {
    const rows = readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line.startsWith("| "));
    const named = rows.map((row) => row.split("|")[1]!).join();
    for (const { title } of manifest.commands)
      assert.ok(named.includes(title.replace(/ Speech$/, "")), `${file} lacks ${title}`);
  }
});

test("the manifest keeps to the rules of Raycast", () => {
  assert.match(manifest.name, /^[a-z0-9-]+$/);
  for (const command of manifest.commands) {
    assert.match(command.name, /^[a-z0-9-]+$/);
    assert.ok(["view", "no-view", "menu-bar"].includes(command.mode));
    assert.ok(command.description.endsWith("."));
  }
  for (const preference of ALL_PREFERENCES as unknown as Record<string, unknown>[]) {
    const { name, type, data, default: value, label } = preference;
    const types = ["textfield", "password", "checkbox", "dropdown", "directory"];
    assert.ok(types.includes(type as string), `${name}`);
    if (type === "checkbox") assert.ok(typeof value === "boolean" && label, `${name}`);
    if (type === "dropdown") {
      const values = (data as { value: string }[]).map((one) => one.value);
      assert.ok(values.includes(value as string), `${name}`);
    }
  }
  for (const versions of [manifest.dependencies, manifest.devDependencies]) {
    for (const version of Object.values(versions)) assert.match(version, /^\d+\.\d+\.\d+$/);
  }
});
