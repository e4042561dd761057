/** Links to the current view. */

import { isEmbedded } from "./appearance.js";
import { button } from "./element.js";
import { flushRoute, readRoute, urlOf } from "./route.js";
import { toast } from "./toast.js";

/**
 * Creates a button that copies the link to the view. Local files have no link that other people could open. In an
 * embedded page, the button opens the link in a new tab.
 */
export function copyLinkButton(isLocal: boolean): HTMLElement {
  return isEmbedded && !isLocal ? button("Open in viewer", openOutside, { class: "button small" }) : button("Copy link", () => void copyLink(isLocal), { class: "button small" });
}

/** Opens the view in a new tab, which has the fields that an embedded page lacks. */
export function openOutside(): void {
  flushRoute();
  open(urlOf(readRoute()), "_blank", "noopener");
}

async function copyLink(isLocal: boolean): Promise<void> {
  if (isLocal) return toast("Local files have no link. Put the model on a server to share it.");
  flushRoute();
  try {
    await navigator.clipboard.writeText(urlOf(readRoute()).href);
    const { src, with: second } = readRoute();
    toast(hasQuery(src) || hasQuery(second) ? "Link copied. This link contains the query of the address." : "Link copied. It opens this view.");
  } catch {
    // Copying fails without permission, or on a page that is not served securely.
    toast("This browser does not let pages copy. Copy the address from the address bar.");
  }
}

/** Returns whether an address has a query, which may contain a signature or a key. */
const hasQuery = (text: string | undefined): boolean => text !== undefined && URL.canParse(text, location.href) && new URL(text, location.href).search !== "";
