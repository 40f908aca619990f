const raycast = require("@raycast/eslint-config");

module.exports = [
  { ignores: ["dist/", ".tests*/", "raycast-env.d.ts"] },
  ...raycast,
  {
    files: ["src/**"],
    rules: { "no-console": "error" }, // what is spoken is nobody else's business
  },
  {
    files: ["eslint.config.js"],
    rules: { "@typescript-eslint/no-require-imports": "off" },
  },
];
