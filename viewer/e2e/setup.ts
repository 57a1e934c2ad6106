/** Runs before each file of tests: after each test its pages are closed, and looked at. */
import { afterEach } from "vitest";
import { forget } from "./browser";

afterEach(forget);
