/**
 * The entry `zstn/hub` for browsers: models in the repositories of Hugging Face, or of another hub.
 *
 * @module zstn/hub
 */

import { httpFunctions } from "../source/http/http-functions.js";
import { pageEnvironment, setEnvironment } from "./environment.js";

export * from "./exports.js";

setEnvironment(pageEnvironment, httpFunctions);
