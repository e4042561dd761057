/** Functions on the origins of servers. */

/** Returns the origin of an http(s) URL; `undefined` for others. */
export function webOrigin(address: string, base?: string): string | undefined {
  if (!URL.canParse(address, base)) return undefined;
  const { protocol, origin } = new URL(address, base);
  return /^https?:$/.test(protocol) ? origin : undefined;
}

/** Returns an origin for display, without the scheme if that is https. */
export const hostOf = (origin: string): string => origin.replace(/^https:\/\//, "");
