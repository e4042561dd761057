/** Imported by the entry for Cloudflare Workers, where such an import gives the compiled module. */
declare module "*.wasm" {
  const module: unknown;
  export default module;
}
