/** The options of a tensor panel: its contents and its initial state. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../engine/client.js";
import type { Reference } from "../engine/protocol.js";
import type { Activities } from "../network/activity.js";
import type { SharedScale } from "./shared-scale.js";
import type { ViewState } from "./view-state.js";
import type { Viewport } from "./viewport.js";

export interface PanelOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly of: Reference;
  readonly minus?: Reference | undefined;
  readonly info: TensorInfo;
  readonly title: string;
  /** The name of the model, for the captions of saved images. */
  readonly model: string;
  readonly signal: AbortSignal;
  /** Returns the viewport that this panel shares with another panel of the same shape. */
  readonly shareView?: (rows: number, columns: number) => Viewport;
  /** The initial view. */
  readonly state: ViewState;
  /** The colour scale that the picture shares with the picture of another panel. */
  readonly scale?: SharedScale;
  /** True if the histogram of the values is shown outside this panel, in one chart with the histogram of another tensor. */
  readonly isOverlaid?: boolean;
  /** A card to show after the picture. */
  readonly layers?: HTMLElement | undefined;
  /** Called with the changed keys of the view. */
  readonly onState: (state: ViewState) => void;
}
