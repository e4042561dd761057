/**
 * The entry `zstn/hub` for browsers: models in the repositories of Hugging Face, or of another hub.
 *
 * @module zstn/hub
 */

import { toolkit } from "../source/http/toolkit.js";
import { pageEnvironment, setEnvironment } from "./environment.js";

export * from "./exports.js";

setEnvironment(pageEnvironment, toolkit);
