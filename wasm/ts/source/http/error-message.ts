/** Creates the messages of HTTP errors. */

/** Returns the URL without query, user name and password. These may contain tokens, and messages end up in logs. */
export function shortened(url: string): string {
  const { protocol, host, pathname, search } = new URL(url);
  return `${protocol}//${host}${pathname}${search ? "?…" : ""}`;
}

/** Returns the message for an error status, for a user who wants to read a file. */
export function statusMessage(url: string, response: Response): string {
  const { status, statusText } = response;
  const where = shortened(url);
  const answer = `the server answered ${status}${statusText ? ` ${statusText}` : ""}`;
  if (status === 404 || status === 410) return `There is no file at ${where}: ${answer}. Check the address.`;
  if (status === 401 || status === 403) {
    return `Not allowed to read ${where}: ${answer}. If it needs a token, pass it in the option \`token\`, or in \`headers\`.`;
  }
  if (status === 429) return `Too many requests for ${where}: ${answer}. Try again later.`;
  if (status >= 500) return `The server of ${where} has a problem: ${answer}. Try again later.`;
  return `Could not read ${where}: ${answer}.`;
}
