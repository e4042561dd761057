/** Servers by their origin. */

/** The origin of an http(s) address; `undefined` for other addresses. */
export function webOrigin(address: string, base?: string): string | undefined {
  if (!URL.canParse(address, base)) return undefined;
  const { protocol, origin } = new URL(address, base);
  return /^https?:$/.test(protocol) ? origin : undefined;
}

/** An origin as people write it: the scheme goes without saying where it is https. */
export const hostOf = (origin: string): string => origin.replace(/^https:\/\//, "");
