import { readFileSync } from "node:fs";
import { defineConfig } from "vite";
import type { Plugin } from "vite";
import { archive } from "./archive.js";
import { sampleFiles } from "./sample/plugin.js";
import { standaloneScripts } from "./standalone/plugin.js";

/** The content security policy of the built page. `connect-src` is open because people view models on any host. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "worker-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src * blob:",
  "base-uri 'none'",
  "form-action 'self'",
].join("; ");

/** Adds the policy to the built page only: the development server injects styles, which the policy forbids. */
const contentSecurityPolicy: Plugin = {
  name: "content-security-policy",
  apply: "build",
  transformIndexHtml: () => [
    {
      tag: "meta",
      attrs: { "http-equiv": "Content-Security-Policy", content: CONTENT_SECURITY_POLICY },
      injectTo: "head-prepend",
    },
  ],
};

const { version } = JSON.parse(readFileSync(new URL("../wasm/package.json", import.meta.url), "utf8")) as { version: string };

/**
 * Inserts the version of the package and the address of the site into the page. Link previews need an absolute address
 * for their picture.
 */
const aboutInPage: Plugin = {
  name: "about-in-page",
  transformIndexHtml: (html) => html.replaceAll("%VERSION%", version).replaceAll("%SITE%", process.env["ZSTN_SITE_URL"]?.replace(/\/*$/, "/") ?? "./"),
};

const UNUSED = "\0unused";

/**
 * Leaves out the modules of the package that the page never imports: the decoder for GPUs, indices of models, streams, the
 * `hf://` addresses of `open`, which the worker resolves beforehand, and suggestions for names that a model does not have.
 */
const withoutUnused: Plugin = {
  name: "without-unused",
  enforce: "pre",
  resolveId: (source) => (/\/(gpu\/read-to-gpu|core\/zstn_gpu|model-index|stream|suggest|hub\/for-open)\.js$/.test(source) ? UNUSED : undefined),
  load: (id) => (id === UNUSED ? 'throw new Error("The viewer is built without this module.");' : undefined),
};

export default defineConfig({
  base: "./",
  plugins: [contentSecurityPolicy, aboutInPage, sampleFiles, standaloneScripts, archive],
  // Workers have their own list of plugins, and only they use the package.
  // Modules that several chunks share go into one chunk: one request instead of many, and fewer bytes after compression.
  worker: { format: "es", plugins: () => [withoutUnused], rolldownOptions: { output: { codeSplitting: { groups: [{ name: "shared", minShareCount: 2 }] } } } },
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: false },
  // If Vite pre-bundled the package, it would lose its .wasm file.
  optimizeDeps: { exclude: ["zstn"] },
});
