/** Copies the link to the current view. */

import { button } from "./element.js";
import { flushRoute, readRoute } from "./route.js";
import { toast } from "./toast.js";

/** Creates a button that copies the URL of the page. Local files have no URL that other people could open. */
export function copyLinkButton(isLocal: boolean): HTMLElement {
  return button("Copy link", () => void copyLink(isLocal), { class: "button small" });
}

async function copyLink(isLocal: boolean): Promise<void> {
  if (isLocal) return toast("Local files have no link. Put the model on a server to share it.");
  flushRoute();
  try {
    await navigator.clipboard.writeText(location.href);
    const { src, with: second } = readRoute();
    toast(hasQuery(src) || hasQuery(second) ? "Link copied. This link contains the query of the address." : "Link copied. It opens this view.");
  } catch {
    // Copying fails without permission, or on a page that is not served securely.
    toast("This browser does not let pages copy. Copy the address from the address bar.");
  }
}

/** Returns whether an address has a query, which may contain a signature or a key. */
const hasQuery = (text: string | undefined): boolean => text !== undefined && URL.canParse(text, location.href) && new URL(text, location.href).search !== "";
