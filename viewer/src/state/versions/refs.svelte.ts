/** The names of a dataset's versions: its log, branches and tags, and its saved views. */
import { ApiError, isConnectionLost, type Api, type Commit, type Problem, type SavedViews } from "../../api/client";

const LOG_LENGTH = 200;

interface Ref {
  name: string;
  version: string;
}

export class Refs {
  log = $state.raw<Commit[]>([]);
  branches = $state.raw<Ref[]>([]);
  tags = $state.raw<Ref[]>([]);
  saved = $state.raw<SavedViews>({ views: [], may_save: false });
  /** Why they could not be read; the menus show it, with a button to try again. */
  problem = $state.raw<Problem | null>(null);
  #read: () => Promise<void> = () => Promise.resolve();

  constructor(readonly api: Api) {}

  /** Reads the log of the whole branch, so that newer versions can be chosen too. */
  async load(dataset: string, version: string): Promise<void> {
    const branch = version.slice(0, version.lastIndexOf("@"));
    this.#read = async () => {
      [this.log, this.branches, this.tags, this.saved] = await Promise.all([
        this.api.versions(dataset, branch, LOG_LENGTH),
        this.api.branches(dataset),
        this.api.tags(dataset),
        this.api.savedViews(dataset),
      ]);
    };
    await this.again();
  }

  async again(): Promise<void> {
    try {
      await this.#read();
      this.problem = null;
    } catch (error) {
      if (isConnectionLost(error)) return;
      if (!(error instanceof ApiError)) throw error;
      this.problem = error.problem;
    }
  }

  /** Saves the rows of a result as a view; the caller shows errors. */
  async saveView(dataset: string, name: string, view: string): Promise<void> {
    await this.api.saveView(dataset, { name, view, message: "" });
    this.saved = await this.api.savedViews(dataset);
  }
}
