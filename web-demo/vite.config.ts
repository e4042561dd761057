import { readFileSync } from "node:fs";
import { defineConfig } from "vite";
import type { Plugin } from "vite";
import { archive } from "./archive.js";
import { sampleFiles } from "./sample/plugin.js";

/** What the built page may do. `connect-src` is open: people look at models on any host. */
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

/** Only in the build: the development server injects styles, which the policy forbids. */
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

/** Writes the version of the package and the address of the site into the page: previews of links need an absolute address for their picture. */
const aboutInPage: Plugin = {
  name: "about-in-page",
  transformIndexHtml: (html) => html.replaceAll("%VERSION%", version).replaceAll("%SITE%", process.env["ZSTN_SITE_URL"]?.replace(/\/*$/, "/") ?? "./"),
};

export default defineConfig({
  base: "./",
  plugins: [contentSecurityPolicy, aboutInPage, sampleFiles, archive],
  worker: { format: "es" },
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  // Bundled before serving, the package would lose sight of its .wasm file.
  optimizeDeps: { exclude: ["zstn"] },
});
