/** The error of a GPU. */

import { ZstnError } from "../errors.js";

/** The GPU refused a command of `model.readToGpu`, for example because the buffer belongs to another device or was destroyed, or it was lost. */
export class GpuError extends ZstnError {
  override name = "GpuError";
  constructor(message: string, options?: ErrorOptions) {
    super("gpu", message, options);
  }
}
