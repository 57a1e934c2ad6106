// What `npm run lint` holds the viewer, its tests and its tools to: the strictest rules of typescript-eslint
// that know types, and those of eslint-plugin-svelte. What is off is off for the reason beside it.
import eslint from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import { defineConfig, globalIgnores } from "eslint/config";
import tseslint from "typescript-eslint";
import svelteConfig from "./svelte.config.js";

export default defineConfig(
  globalIgnores(["src/api/types.ts"]), // made by openapi-typescript
  { linterOptions: { reportUnusedDisableDirectives: "error", reportUnusedInlineConfigs: "error" } },
  eslint.configs.recommended,
  tseslint.configs.strictTypeChecked,
  tseslint.configs.stylisticTypeChecked,
  svelte.configs.recommended,
  {
    languageOptions: { parserOptions: { projectService: true, extraFileExtensions: [".svelte"] } },
    rules: {
      "no-undef": "off", // TypeScript says it, and knows the browser's names
      "@typescript-eslint/no-confusing-void-expression": [
        "error",
        { ignoreArrowShorthand: true, ignoreVoidReturningFunctions: true }, // `() => close()` and `return close()` read well
      ],
      "@typescript-eslint/no-empty-function": "off", // `() => {}` is how a listener that does nothing is written
      "@typescript-eslint/prefer-nullish-coalescing": ["error", { ignorePrimitives: { number: true, string: true } }], // "" and 0 are none, too
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }], // a number has one text
    },
  },
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: tseslint.parser, svelteConfig } },
    rules: {
      "@typescript-eslint/no-meaningless-void-operator": "off", // `void signal;` is how an effect names what it follows
      "svelte/prefer-svelte-reactivity": "off", // state is replaced, never changed: a plain Set or URL is enough
    },
  },
  {
    files: ["**/*.svelte"],
    rules: {
      // To this parser what a component's property takes is `any`; svelte-check knows the types of both sides.
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-call": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-unsafe-return": "off",
    },
  },
);
