/** The type of a `.wasm` import in Cloudflare Workers: the compiled module. */
declare module "*.wasm" {
  const module: unknown;
  export default module;
}
