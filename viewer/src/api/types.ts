// Made of openapi.json by `npm run types`; do not edit.

type Json = string | number | boolean | null | Json[] | {
    [key: string]: Json;
};
export interface paths {
    "/v1/datasets/{name}/objects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Objects
         * @description List the objects whose path starts with ``prefix``, in order, from behind ``after``.
         */
        get: operations["list_objects"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/folders": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Folders
         * @description Name what lies directly under ``prefix`` and holds objects.
         */
        get: operations["list_folders"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/objects/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Object
         * @description Read an object, whole or one range of it.
         */
        get: operations["read_object"];
        /**
         * Put Object
         * @description Put an object that a commit is made of; with ``If-None-Match: *`` only where none is.
         */
        put: operations["put_object"];
        post?: never;
        delete?: never;
        options?: never;
        /**
         * Look Up Object
         * @description Return how long an object is, and when it was written.
         */
        head: operations["look_up_object"];
        patch?: never;
        trace?: never;
    };
    "/v1/datasets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Datasets
         * @description List the lake's datasets.
         */
        get: operations["list_datasets"];
        put?: never;
        /**
         * Create Dataset
         * @description Make a dataset; needs a scope to write all of it.
         */
        post: operations["create_dataset"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Describe Dataset
         * @description Describe one version: schema, rows, bytes.
         */
        get: operations["describe_dataset"];
        put?: never;
        post?: never;
        /**
         * Delete Dataset
         * @description Remove a dataset and all its versions, for good; needs an ``admin`` scope.
         *
         *     Other files at its place are left; the response names them.
         */
        delete: operations["delete_dataset"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Versions
         * @description List commits, the newest first, from a version backwards.
         */
        get: operations["list_versions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/branches": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Branches
         * @description List branches and the commits at their heads; one that is damaged is named, with why.
         */
        get: operations["list_branches"];
        put?: never;
        /**
         * Create Branch
         * @description Start a branch at a version.
         */
        post: operations["create_branch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/tags": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Tags
         * @description List tags and the commits that they name.
         */
        get: operations["list_tags"];
        put?: never;
        /**
         * Create Tag
         * @description Name a version permanently; needs a scope to write the whole dataset.
         */
        post: operations["create_tag"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Diff Versions
         * @description Compare version ``a`` with ``b`` (left out: main's newest), by row identity.
         */
        get: operations["diff_versions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/rows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Page
         * @description Read rows by position in the version, or in a query's result.
         */
        get: operations["read_page"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/query": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Open Result
         * @description Open the result of a query again, or of selected rows, by its id.
         */
        get: operations["open_result"];
        put?: never;
        /**
         * Run Query
         * @description Run a query over one version, or select rows of it: their count, columns, first page.
         */
        post: operations["run_query"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/selection": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Select Rows
         * @description Return which rows queries select, or the values of their groups, as .npz.
         */
        post: operations["select_rows"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/query/explain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Explain Query
         * @description Return the plan of a query; an invalid query is an error with its place.
         */
        post: operations["explain_query"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/query/complete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Complete Query
         * @description Describe what the word before the cursor could become.
         */
        post: operations["complete_query"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Search Rows
         * @description Rank the rows of one version by nearness to vectors, or by how well texts match words.
         */
        post: operations["search_rows"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/label-issues/{tensor}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Find Label Issues
         * @description Find rows whose label is likely wrong, by predicted probabilities.
         */
        get: operations["find_label_issues"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/duplicates/{tensor}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Find Duplicates
         * @description Find rows that appear twice, or nearly: the method depends on the type of the tensor.
         */
        get: operations["find_duplicates"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/views": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Saved
         * @description List the saved views.
         */
        get: operations["list_saved"];
        put?: never;
        /**
         * Save View
         * @description Give a query's rows a name, for good and for everyone.
         */
        post: operations["save_view"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/views/{view}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Open Saved
         * @description Open a saved view as a query's result.
         */
        get: operations["open_saved"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/tensors/{tensor}/{row}/info": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Info
         * @description Describe a sample that is read in parts, from its header alone.
         */
        get: operations["read_info"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/tensors/{tensor}/{row}/peaks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Peaks
         * @description Read the outline of a sound, for a waveform.
         */
        get: operations["read_peaks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/tensors/{tensor}/{row}/scene": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Scene
         * @description Read points or triangles: .npz of `xyz`, `origin`, `total`, and `faces`, `rgb`, `value`.
         */
        get: operations["read_scene"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/tensors/{tensor}/{row}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Sample
         * @description Read one sample: an image for browsers, the stored bytes with ``?raw``.
         */
        get: operations["read_sample"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/tensors/{tensor}/{row}/window": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Window
         * @description Read the window that a deep image has of its own, and its range of values.
         */
        get: operations["read_window"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/thumbnails": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Read Thumbnails
         * @description Make many thumbnails in one framed body (`bodies/frames.py`), each sent when made.
         */
        post: operations["read_thumbnails"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/statistics/{tensor}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Statistics
         * @description Count the values of one tensor, and their shapes, over a version or a query's result.
         */
        get: operations["read_statistics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/statistics/{tensor}/by/{other}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Pair Statistics
         * @description Count rows by the values of two tensors: classes, or bars of a histogram, of each.
         */
        get: operations["read_pair_statistics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/projection/{tensor}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Projection
         * @description Project vectors to the plane: .npz of `xy`, `row`, and `color` where it is asked for.
         */
        get: operations["read_projection"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Runs
         * @description List the runs that were recorded beside a dataset, by name.
         */
        get: operations["list_runs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/runs/{run}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Run
         * @description Describe a run: its config, its metrics, its passes over the rows.
         */
        get: operations["read_run"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/runs/{run}/metrics/{metric}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Metric
         * @description Return a metric over steps: lowest, highest and mean value of each point.
         */
        get: operations["read_metric"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/runs/{run}/steps/{step}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Step
         * @description Return the rows of a step's batch, as the id of a result and by their numbers.
         *
         *     Where the record does not identify the rows of a batch (of a mix, of packed rows), these are the
         *     rows that values were logged of, and ``missing`` has the reason.
         */
        get: operations["read_step"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/runs/{run}/rows/{row}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Seen
         * @description Return the steps whose batches had a row, and the values logged of it at each.
         *
         *     The steps are computed from the order of the run. Where the record does not have the order (of a
         *     mix, of packed rows), they are those at which values of the row were logged.
         */
        get: operations["read_seen"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stream Batches
         * @description Stream decoded batches, from the beginning of an epoch or from a loader's state.
         */
        post: operations["stream_batches"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/transactions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Commit Transaction
         * @description Change one branch: all of the operations, or none. An Arrow stream is rows to append.
         */
        post: operations["commit_transaction"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/branches/{branch}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete Branch
         * @description End a branch; its name stays used.
         */
        delete: operations["delete_branch"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/tags/{tag}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete Tag
         * @description Give up a tag; its name stays used.
         */
        delete: operations["delete_tag"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/merge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Merge
         * @description Bring the changes of one branch into another, by row identity; 409 names the conflicts.
         */
        post: operations["merge"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/optimize": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Optimize
         * @description Merge small chunks of a branch, and drop what deleted rows left behind.
         */
        post: operations["optimize"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Restore
         * @description Publish the content of an older version as a new commit; history stays.
         */
        post: operations["restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream Events
         * @description Report when a branch gets a new commit.
         */
        get: operations["stream_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/datasets/{name}/exports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Export Rows
         * @description Write rows to a file of another format, which the client downloads.
         */
        post: operations["export_rows"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/exports/{export}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download Export
         * @description Download an export, or a range of it.
         */
        get: operations["download_export"];
        put?: never;
        post?: never;
        /**
         * Delete Export
         * @description Delete an export before it expires.
         */
        delete: operations["delete_export"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Jobs
         * @description List the jobs of this token, the newest first.
         */
        get: operations["list_jobs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{job}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read Job
         * @description Return the answer of the request, or 202 while it is worked on.
         */
        get: operations["read_job"];
        put?: never;
        post?: never;
        /**
         * Cancel Job
         * @description Cancel a request that is worked on, or delete its answer.
         */
        delete: operations["cancel_job"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/flows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Flows
         * @description List runs of flows, the newest first.
         */
        get: operations["list_flows"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/flows/{flow}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Inspect Flow
         * @description Return a run with its steps.
         */
        get: operations["inspect_flow"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/flows/{flow}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Retry Flow
         * @description Continue a run that failed or was cancelled, at the step that has no result.
         */
        post: operations["retry_flow"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/flows/{flow}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel Flow
         * @description Cancel a run: it ends before its next step.
         */
        post: operations["cancel_flow"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/flows/{flow}/approve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Approve Flow
         * @description Answer the approval that a run waits for; the first answer counts.
         */
        post: operations["approve_flow"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Open Session
         * @description Exchange a token for a cookie that no script can read.
         */
        post: operations["open_session"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * ApprovalRequest
         * @description The answer to the approval that a run waits for; False refuses.
         */
        ApprovalRequest: {
            /** Decision */
            decision: boolean;
        };
        /**
         * AskedRows
         * @description Rows of one version, or of a view.
         */
        AskedRows: {
            /** Version */
            version?: string | null;
            /** Digest */
            digest?: string | null;
            /** Steps */
            steps?: components["schemas"]["Step"][];
            /** Saved */
            saved?: string | null;
            /** View */
            view?: string | null;
        };
        /**
         * Branch
         * @description A branch, and the commit at its head; its own name where that cannot be read.
         */
        Branch: {
            /** Name */
            name: string;
            /** Version */
            version: string;
            /**
             * Damaged
             * @description why it cannot be read
             */
            damaged?: string | null;
        };
        /**
         * BranchRequest
         * @description A new branch.
         */
        BranchRequest: {
            /** Name */
            name: string;
            /**
             * At
             * @description main's newest when left out
             */
            at?: string | null;
        };
        /**
         * Branches
         * @description All branches.
         */
        Branches: {
            /** Branches */
            branches: components["schemas"]["Branch"][];
        };
        /** @description a sample, as JSON */
        CellValue: Json;
        /**
         * ClassCount
         * @description How often a class, a word, a string or a boolean occurs, and in how many rows.
         */
        ClassCount: {
            /** Code */
            code: number;
            /** Name */
            name: string;
            /** Count */
            count: number;
            /** Rows */
            rows: number;
        };
        /**
         * ClassCounts
         * @description Counts over ``counted`` rows; ``distinct`` is how many different values there are.
         *
         *     The most frequent strings and words are listed, and all classes.
         */
        ClassCounts: {
            /** Counted */
            counted: number;
            /** Values */
            values: number;
            /** Distinct */
            distinct: number;
            /** Entries */
            entries: components["schemas"]["ClassCount"][];
        };
        /**
         * CommitInfo
         * @description One commit; ``changes`` has one short line a change.
         */
        CommitInfo: {
            /** Version */
            version: string;
            /** Digest */
            digest: string;
            /** Message */
            message: string;
            /** Author */
            author: string | null;
            /** Time */
            time: string;
            /** Parents */
            parents: string[];
            /** Changes */
            changes: string[];
        };
        /**
         * Committed
         * @description The published commit; ``is_repeated`` when the same key had published it before.
         */
        Committed: {
            /** Version */
            version: string;
            /** Digest */
            digest: string;
            /** Rows */
            rows: number;
            /** Is Repeated */
            is_repeated: boolean;
        };
        /**
         * CompletionRequest
         * @description A query that is being written, and the place of the cursor in it.
         */
        CompletionRequest: {
            /** Tql */
            tql: string;
            /** Cursor */
            cursor: number;
            /** Version */
            version?: string | null;
        };
        /**
         * Completions
         * @description Completions, the most specific kinds first.
         */
        Completions: {
            /** Offers */
            offers: components["schemas"]["Offer"][];
        };
        /**
         * Cost
         * @description The cost of a query; None where it was not counted.
         */
        Cost: {
            /** Seconds */
            seconds: number;
            /** Nbytes */
            nbytes: number | null;
            /** Requests */
            requests: number | null;
        };
        /**
         * CreateRequest
         * @description A new dataset.
         */
        CreateRequest: {
            /** Name */
            name: string;
            /**
             * Schema
             * @description types by tensor: a dtype's name, `str`, or an object with `kind`
             * @example {
             *       "image": {
             *         "codec": "jpeg",
             *         "kind": "image"
             *       },
             *       "score": "float32"
             *     }
             */
            schema: {
                [key: string]: string | {
                    [key: string]: unknown;
                };
            };
            /**
             * Grace
             * @description as tl.create takes it
             * @default 24h
             */
            grace?: string;
            /**
             * Exist Ok
             * @default false
             */
            exist_ok?: boolean;
        };
        /**
         * Curve
         * @description A metric over steps ``start`` to ``stop``: of each point, the steps ``first`` to ``last``.
         *
         *     ``low``, ``high`` and ``mean`` are of the finite values of all ranks, null where there is none;
         *     ``at`` is the step that has the highest, and ``others`` counts values that are not finite.
         */
        Curve: {
            /** Metric */
            metric: string;
            /** Start */
            start: number;
            /** Stop */
            stop: number;
            /** First */
            first: number[];
            /** Last */
            last: number[];
            /** Low */
            low: (number | null)[];
            /** High */
            high: (number | null)[];
            /** Mean */
            mean: (number | null)[];
            /** At */
            at: number[];
            /** Others */
            others: number[];
        };
        /**
         * DatasetDeleted
         * @description Paths at a dataset's place that are not the dataset's, and were left, sorted.
         */
        DatasetDeleted: {
            /** Left */
            left: string[];
        };
        /**
         * DatasetInfo
         * @description One version of one dataset.
         */
        DatasetInfo: {
            /** Name */
            name: string;
            /**
             * Url
             * @description for tl.open; null when the server hides it
             */
            url: string | null;
            /** Version */
            version: string;
            /** Digest */
            digest: string;
            /** Rows */
            rows: number;
            /** Nbytes */
            nbytes: number | null;
            /** Tensors */
            tensors: components["schemas"]["TensorInfo"][];
        };
        /**
         * DatasetList
         * @description The lake's datasets, by name.
         */
        DatasetList: {
            /** Datasets */
            datasets: components["schemas"]["DatasetName"][];
        };
        /**
         * DatasetName
         * @description One dataset of the lake.
         */
        DatasetName: {
            /** Name */
            name: string;
        };
        /**
         * DiffInfo
         * @description The differences between two versions, by row identity; rows are listed up to ``limit``.
         */
        DiffInfo: {
            /** A */
            a: string;
            /** B */
            b: string;
            /** Limit */
            limit: number;
            /** Schema Changes */
            schema_changes: string[];
            /** Added */
            added: number;
            /** Added Rows */
            added_rows: number[];
            /** Removed */
            removed: number;
            /** Removed Rows */
            removed_rows: number[];
            /** Updated */
            updated: components["schemas"]["UpdatedRows"][];
        };
        /**
         * DisputedCell
         * @description A cell that both branches changed, to different values; ``row`` is that of ours.
         */
        DisputedCell: {
            /** Tensor */
            tensor: string;
            /** Row */
            row: number;
            /** Row Id */
            row_id: string;
            /** Base */
            base: components["schemas"]["CellValue"] | components["schemas"]["Summary"];
            /** Ours */
            ours: components["schemas"]["CellValue"] | components["schemas"]["Summary"];
            /** Theirs */
            theirs: components["schemas"]["CellValue"] | components["schemas"]["Summary"];
        };
        /**
         * DisputedRow
         * @description A row that one branch deleted and the other changed; ``row`` is that of ``version``.
         */
        DisputedRow: {
            /** Row Id */
            row_id: string;
            /**
             * Deleted By
             * @enum {string}
             */
            deleted_by: "ours" | "theirs";
            /** Version */
            version: string;
            /** Row */
            row: number;
            /**
             * Tensors
             * @description those that the other branch changed
             */
            tensors: string[];
        };
        /**
         * Duplicates
         * @description Rows that appear twice, cluster by cluster, at most 10,000 of ``total``; clusters from 0.
         */
        Duplicates: {
            /** Version */
            version: string;
            /** Total */
            total: number;
            /** Rows */
            rows: number[];
            /** Clusters */
            clusters: number[];
        };
        /**
         * ExplainRequest
         * @description A query that is asked about, not run.
         */
        ExplainRequest: {
            /** Tql */
            tql: string;
            /**
             * Params
             * @default {}
             */
            params?: {
                [key: string]: unknown;
            };
            /** Version */
            version?: string | null;
        };
        /**
         * Explanation
         * @description How a query would run, one step a line.
         */
        Explanation: {
            /** Plan */
            plan: string;
        };
        /**
         * ExportInfo
         * @description A file that was written; ``url`` is where to download it until it ``expires``.
         */
        ExportInfo: {
            /** Id */
            id: string;
            /** Url */
            url: string;
            /** File */
            file: string;
            /** Format */
            format: string;
            /** Version */
            version: string;
            /** Rows */
            rows: number;
            /** Nbytes */
            nbytes: number;
            /** Expires */
            expires: string;
        };
        /**
         * ExportRequest
         * @description Rows, and the format of the file: a format of many files is one ZIP file.
         */
        ExportRequest: {
            /** Version */
            version?: string | null;
            /** Digest */
            digest?: string | null;
            /** Steps */
            steps?: components["schemas"]["Step"][];
            /** Saved */
            saved?: string | null;
            /** View */
            view?: string | null;
            /**
             * Format
             * @enum {string}
             */
            format: "parquet" | "csv" | "jsonl" | "hdf5" | "coco" | "litdata" | "mds" | "tfrecord" | "webdataset" | "zarr";
            /** Columns */
            columns?: string[] | null;
        };
        /**
         * FlowInfo
         * @description A run of a flow; ``waits_for`` is the question of its approval, ``steps`` those that ended.
         *
         *     Its state is queued, running, waiting, waiting for code, done, failed or cancelled.
         */
        FlowInfo: {
            /** Id */
            id: string;
            /** Flow */
            flow: string;
            /** State */
            state: string;
            /** Waits For */
            waits_for: string | null;
            /** Arguments */
            arguments: string;
            /** Result */
            result: string | null;
            /** Error */
            error: string | null;
            /** Started */
            started: string;
            /** Steps */
            steps: components["schemas"]["FlowStep"][];
        };
        /**
         * FlowList
         * @description Runs of flows, the newest first, without their steps.
         */
        FlowList: {
            /** Flows */
            flows: components["schemas"]["FlowInfo"][];
        };
        /**
         * FlowStep
         * @description A step of a run that has ended; ``error`` where it failed.
         */
        FlowStep: {
            /** Name */
            name: string;
            /** Result */
            result: string | null;
            /** Error */
            error: string | null;
        };
        /**
         * FolderList
         * @description The folders directly under a prefix that hold objects.
         */
        FolderList: {
            /** Folders */
            folders: string[];
        };
        /**
         * Histogram
         * @description ``counts[i]`` values are in [edges[i], edges[i + 1]); the last bar holds its end too.
         *
         *     ``bounds`` are the edges as TQL writes them, exactly: ``expression >= bounds[i]`` finds what the
         *     bars count. ``per`` element, a row holds many values, and ANY selects rows that hold one or more
         *     of them.
         */
        Histogram: {
            /** Title */
            title: string;
            /**
             * Expression
             * @description the TQL whose values these are
             */
            expression: string;
            /**
             * Per
             * @enum {string}
             */
            per: "row" | "element";
            /**
             * Is Whole
             * @description whether values are integers
             */
            is_whole: boolean;
            /**
             * Is Rising
             * @description whether edges are 1, 2, 5, 10, 20, …
             */
            is_rising: boolean;
            /**
             * Counted
             * @description rows whose values were counted
             */
            counted: number;
            /** Values */
            values: number;
            /** Nans */
            nans: number;
            /** Infinities */
            infinities: number;
            /**
             * Minimum
             * @description of the finite values, as TQL
             */
            minimum: string | null;
            /** Maximum */
            maximum: string | null;
            /** Mean */
            mean: number | null;
            /** Edges */
            edges: number[];
            /** Bounds */
            bounds: string[];
            /** Counts */
            counts: number[];
        };
        /**
         * HybridQuery
         * @description A second column, whose ranking is joined with that of the first.
         */
        HybridQuery: {
            /** Column */
            column: string;
            /** Query */
            query: unknown;
        };
        /**
         * JobInfo
         * @description A request that is worked on.
         */
        JobInfo: {
            /** Id */
            id: string;
            /**
             * Status
             * @constant
             */
            status: "running";
            /** Started */
            started: string;
        };
        /**
         * JobList
         * @description The jobs of a client, the newest first.
         */
        JobList: {
            /** Jobs */
            jobs: components["schemas"]["JobSummary"][];
        };
        /**
         * JobSummary
         * @description A request that was sent to be answered later; ``done`` has an answer, of any status.
         *
         *     Its status is queued, running, done or failed.
         */
        JobSummary: {
            /** Id */
            id: string;
            /** Request */
            request: string;
            /** Status */
            status: string;
            /** Started */
            started: string;
        };
        /**
         * LabelIssues
         * @description Rows whose label is likely wrong, worst first, at most 10,000 of ``total``.
         *
         *     ``given`` and ``suggested`` are codes of classes; ``scores`` are 1 minus the probability of the
         *     given class. ``left_out`` counts rows that have a label, and NaN among their probabilities.
         */
        LabelIssues: {
            /** Version */
            version: string;
            /** Total */
            total: number;
            /** Rows */
            rows: number[];
            /** Scores */
            scores: number[];
            /** Given */
            given: number[];
            /** Suggested */
            suggested: number[];
            /** Left Out */
            left_out: number;
        };
        /**
         * ListedRows
         * @description A batch of rows in an order that only the client has.
         */
        ListedRows: {
            /**
             * Stop
             * @description what `state` has as its position after it
             */
            stop: number;
            /** Places */
            places: number[];
            /** Positions */
            positions: number[];
            /**
             * Valid
             * @default true
             */
            valid?: boolean;
        };
        /**
         * MediaInfo
         * @description A sample that is read in parts: what its kind has, null elsewhere.
         */
        MediaInfo: {
            /** Media Type */
            media_type: string;
            /** Nbytes */
            nbytes: number;
            /** Shape */
            shape: number[];
            /** Codec */
            codec?: string | null;
            /** Duration S */
            duration_s?: number | null;
            /** Rate */
            rate?: number | null;
            /** Spacing */
            spacing?: number[] | null;
            /** Fields */
            fields?: string[] | null;
            /** Faces */
            faces?: number | null;
        };
        /**
         * MergeRequest
         * @description Bring the changes of ``source`` (a branch, or any version) into a branch.
         *
         *     ``decisions`` has, by tensor and row id, whose value a cell gets that both changed;
         *     ``rows`` whose decision holds for a row that one branch deleted and the other changed;
         *     ``on_conflict`` holds for all others.
         */
        MergeRequest: {
            /** Source */
            source: string;
            /**
             * Branch
             * @default main
             */
            branch?: string;
            /**
             * On Conflict
             * @default error
             * @enum {string}
             */
            on_conflict?: "error" | "ours" | "theirs";
            /** Tensors */
            tensors?: string[] | null;
            /** Decisions */
            decisions?: {
                [key: string]: {
                    [key: string]: "ours" | "theirs";
                };
            } | null;
            /** Rows */
            rows?: {
                [key: string]: "ours" | "theirs";
            } | null;
            /**
             * Dry Run
             * @default false
             */
            dry_run?: boolean;
        };
        /**
         * Merged
         * @description The result of a merge, or its preview: ``how`` is nothing, fast-forward or merge.
         *
         *     A preview lists the cells and rows to decide, at most 1,000 of each; ``conflicts`` counts all.
         *     Cells of tensors that are ``per`` one another are to be decided alike in each row.
         */
        Merged: {
            /** How */
            how: string;
            /** Version */
            version: string | null;
            /** Added */
            added: number;
            /** Removed */
            removed: number;
            /** Updated */
            updated: {
                [key: string]: number;
            };
            /**
             * Indexes
             * @description indexes made or updated on the branch merged, line by line
             */
            indexes: string[];
            /** Conflicts */
            conflicts: string[];
            /** Disputed */
            disputed: components["schemas"]["DisputedCell"][];
            /** Disputed Rows */
            disputed_rows: components["schemas"]["DisputedRow"][];
        };
        /**
         * ObjectInfo
         * @description One object of a dataset; ``modified`` is by the store's clock.
         */
        ObjectInfo: {
            /** Path */
            path: string;
            /** Nbytes */
            nbytes: number;
            /** Modified */
            modified: string;
        };
        /**
         * ObjectList
         * @description Objects in the order of their paths; ``next`` is the path to continue after, or None.
         */
        ObjectList: {
            /** Objects */
            objects: components["schemas"]["ObjectInfo"][];
            /** Next */
            next: string | null;
        };
        /**
         * Offer
         * @description A text that could replace the word before the cursor, and what it is.
         */
        Offer: {
            /** Text */
            text: string;
            /**
             * Kind
             * @enum {string}
             */
            kind: "tensor" | "class" | "function" | "keyword";
            /** Detail */
            detail: string;
        };
        /**
         * OptimizeRequest
         * @description Merge small chunks of a branch, and drop what deleted rows left behind.
         */
        OptimizeRequest: {
            /**
             * Branch
             * @default main
             */
            branch?: string;
        };
        /**
         * Optimized
         * @description The result of an optimization; ``commits`` is 0 if there was nothing to do.
         */
        Optimized: {
            /** Version */
            version: string;
            /** Commits */
            commits: number;
            /** Chunks Before */
            chunks_before: number;
            /** Chunks After */
            chunks_after: number;
        };
        /**
         * PairAxis
         * @description One of two tensors: its most frequent ``classes``, or a ``histogram``; the other is null.
         *
         *     Classes are those that the most rows hold, in that order; ``classes.distinct`` is the number of
         *     all.
         */
        PairAxis: {
            /** Tensor */
            tensor: string;
            classes: components["schemas"]["ClassCounts"] | null;
            histogram: components["schemas"]["Histogram"] | null;
        };
        /**
         * PairStatistics
         * @description ``counts[j][i]`` rows have a value in place i of ``x`` and one in place j of ``y``.
         *
         *     A place is a class or a bar. A row that holds many classes is counted in each of them. Rows
         *     with a NULL, NaN or infinity, and those of classes that are not listed, are in no place.
         */
        PairStatistics: {
            /** Rows */
            rows: number;
            /**
             * Counted
             * @description rows that were looked at
             */
            counted: number;
            /**
             * Placed
             * @description rows that are in one place or more
             */
            placed: number;
            x: components["schemas"]["PairAxis"];
            y: components["schemas"]["PairAxis"];
            /** Counts */
            counts: number[][];
            /**
             * Medians
             * @description of one number by the classes of the other tensor; else null
             */
            medians: (number | null)[] | null;
        };
        /**
         * PeaksInfo
         * @description The outline of a sound: of each stretch the least and the greatest value, ±127 full scale.
         */
        PeaksInfo: {
            /** Low */
            low: number[];
            /** High */
            high: number[];
            /** Is Sampled */
            is_sampled: boolean;
        };
        /**
         * QueryRequest
         * @description A query over one version (None: main's newest), or selected rows of it: one of both.
         */
        QueryRequest: {
            /** Tql */
            tql?: string | null;
            /**
             * Rows
             * @description base64 of ascending runs, as pairs of varints: gap, length
             */
            rows?: string | null;
            /**
             * Params
             * @default {}
             */
            params?: {
                [key: string]: unknown;
            };
            /** Version */
            version?: string | null;
            /**
             * Limit
             * @default 64
             */
            limit?: number;
            /** Columns */
            columns?: string[] | null;
        };
        /**
         * QueryResult
         * @description A query's rows: ``view`` names them permanently; of aggregates, no rows of the dataset.
         */
        QueryResult: {
            /** View */
            view: string;
            /** Version */
            version: string;
            /** Tql */
            tql: string;
            /** Tensors */
            tensors: components["schemas"]["TensorInfo"][];
            /** Rows */
            rows: number;
            /** Is Computed */
            is_computed: boolean;
            cost: components["schemas"]["Cost"];
            page: components["schemas"]["RowsPage"];
        };
        /**
         * Ref
         * @description A branch or a tag, and the commit that it names.
         */
        Ref: {
            /** Name */
            name: string;
            /** Version */
            version: string;
        };
        /**
         * RestoreRequest
         * @description Publish the content of an older version as a new commit of a branch.
         */
        RestoreRequest: {
            /**
             * Restored
             * @description the older version
             */
            restored: string;
            /**
             * Branch
             * @default main
             */
            branch?: string;
        };
        /**
         * Row
         * @description One row, with a cell for each column; of rows that a query computed both names are null.
         */
        Row: {
            /**
             * Row
             * @description its position in the version
             */
            _row: number | null;
            /**
             * Row Id
             * @description permanent row identifier
             */
            _row_id: string | null;
        } & {
            [key: string]: components["schemas"]["CellValue"] | components["schemas"]["Summary"];
        };
        /**
         * RowsPage
         * @description Rows by position in the version, or in a query's result; ``next`` is where to continue.
         */
        RowsPage: {
            /** Version */
            version: string;
            /** View */
            view: string | null;
            /** Offset */
            offset: number;
            /** Total */
            total: number;
            /** Next */
            next: number | null;
            /** Rows */
            rows: components["schemas"]["Row"][];
        };
        /**
         * RunDetails
         * @description One run, with what its curves and rows can be asked for.
         */
        RunDetails: {
            /** Name */
            name: string;
            /**
             * Status
             * @description a part was written in the last 90 s; the last pass was completed; it was left before its end; no step was recorded; the record is damaged, or too large
             * @enum {string}
             */
            status: "recording" | "complete" | "unfinished" | "empty" | "unreadable";
            /**
             * Version
             * @description that it began with
             * @default
             */
            version?: string;
            /**
             * Started
             * @description time of the first step
             */
            started?: string | null;
            /**
             * Updated
             * @description time of the last step
             */
            updated?: string | null;
            /**
             * Steps
             * @default 0
             */
            steps?: number;
            /**
             * Last
             * @description the last value of each scalar that was logged
             */
            last?: {
                [key: string]: components["schemas"]["CellValue"];
            };
            /** Problem */
            problem?: string | null;
            /** Config */
            config: {
                [key: string]: unknown;
            };
            /**
             * Metrics
             * @description scalars; then wait_s and compute_s, in seconds of a step
             */
            metrics: string[];
            /**
             * Values
             * @description that were logged for rows
             */
            values: string[];
            /** Passes */
            passes: components["schemas"]["RunPass"][];
        };
        /**
         * RunInfo
         * @description One run; of one that cannot be read, its name and the ``problem``.
         */
        RunInfo: {
            /** Name */
            name: string;
            /**
             * Status
             * @description a part was written in the last 90 s; the last pass was completed; it was left before its end; no step was recorded; the record is damaged, or too large
             * @enum {string}
             */
            status: "recording" | "complete" | "unfinished" | "empty" | "unreadable";
            /**
             * Version
             * @description that it began with
             * @default
             */
            version?: string;
            /**
             * Started
             * @description time of the first step
             */
            started?: string | null;
            /**
             * Updated
             * @description time of the last step
             */
            updated?: string | null;
            /**
             * Steps
             * @default 0
             */
            steps?: number;
            /**
             * Last
             * @description the last value of each scalar that was logged
             */
            last?: {
                [key: string]: components["schemas"]["CellValue"];
            };
            /** Problem */
            problem?: string | null;
        };
        /**
         * RunList
         * @description Runs in the order of their names; ``next`` is the name to continue after, or None.
         */
        RunList: {
            /** Runs */
            runs: components["schemas"]["RunInfo"][];
            /** Next */
            next: string | null;
        };
        /**
         * RunPass
         * @description Steps ``start`` to ``stop`` of one pass over the rows; ``stop`` null: no known end.
         */
        RunPass: {
            /** Start */
            start: number;
            /** Stop */
            stop: number | null;
            /** Epoch */
            epoch: number;
            /**
             * Version
             * @description that was read
             */
            version: string;
            /** Ranks */
            ranks: number;
            /**
             * Batch Size
             * @description rows of a batch of all ranks
             */
            batch_size: number;
        };
        /**
         * RunStep
         * @description The batch of a step; ``view`` names its rows as a result, in the order of the batch.
         *
         *     The result has a column for each value that was logged of rows at this step.
         */
        RunStep: {
            /** Run */
            run: string;
            /** Step */
            step: number;
            pass: components["schemas"]["RunPass"];
            /** Rank */
            rank: number | null;
            /** View */
            view: string;
            /**
             * Rows
             * @description of the version; null where it does not show one
             */
            rows: (number | null)[];
            /**
             * Missing
             * @description why the record does not identify the rows of the batch: these are the rows that values were logged of
             */
            missing?: string | null;
            /**
             * Scalars
             * @description logged at the step, by rank 0
             */
            scalars: {
                [key: string]: components["schemas"]["CellValue"];
            };
            /**
             * Columns
             * @description of the view: values logged of rows
             */
            columns: string[];
        };
        /**
         * SaveViewRequest
         * @description The ``view`` of a query's result, and the name that it is to have.
         */
        SaveViewRequest: {
            /** Name */
            name: string;
            /** View */
            view: string;
            /**
             * Message
             * @default
             */
            message?: string;
        };
        /**
         * SavedViewInfo
         * @description Rows of a version under a name; ``tql`` is what led to them, None where they were picked.
         */
        SavedViewInfo: {
            /** Name */
            name: string;
            /** Version */
            version: string;
            /** Rows */
            rows: number;
            /** Tql */
            tql: string | null;
            /** Message */
            message: string;
            /** Author */
            author: string | null;
        };
        /**
         * SavedViews
         * @description The saved views, by name, and whether who asks may save one.
         */
        SavedViews: {
            /** Views */
            views: components["schemas"]["SavedViewInfo"][];
            /** May Save */
            may_save: boolean;
        };
        /**
         * SearchRequest
         * @description A search of rows in a column by a query, or by the value of a row: one of both.
         */
        SearchRequest: {
            /** Version */
            version?: string | null;
            /** Digest */
            digest?: string | null;
            /** Steps */
            steps?: components["schemas"]["Step"][];
            /** Saved */
            saved?: string | null;
            /** View */
            view?: string | null;
            /** Column */
            column: string;
            /**
             * Query
             * @description a vector or words, or a list of several of either
             */
            query?: unknown;
            /** Row */
            row?: number | null;
            /**
             * K
             * @default 10
             */
            k?: number;
            /** Where */
            where?: string | null;
            /** Params */
            params?: {
                [key: string]: unknown;
            };
            /**
             * Exact
             * @default false
             */
            exact?: boolean;
            hybrid?: components["schemas"]["HybridQuery"] | null;
            /** Recall */
            recall?: number | null;
            /**
             * Limit
             * @default 64
             */
            limit?: number;
            /** Columns */
            columns?: string[] | null;
        };
        /**
         * SearchResult
         * @description Rows by their numbers, query by query, best first; ``queries`` of a list of queries.
         *
         *     A hybrid search adds the rank of each row in both rankings, null where a row is in one only.
         */
        SearchResult: {
            /** Version */
            version: string;
            /** Rows */
            rows: number[];
            /** Scores */
            scores: number[];
            /** Queries */
            queries: number[] | null;
            /** Ranks */
            ranks: (number | null)[] | null;
            /** Hybrid Ranks */
            hybrid_ranks: (number | null)[] | null;
            /** Explanation */
            explanation: string;
            cost: components["schemas"]["Cost"];
            page: components["schemas"]["RowsPage"];
        };
        /**
         * SeenSteps
         * @description The last 1,000 of ``total`` steps whose batches had a row, ascending.
         */
        SeenSteps: {
            /** Steps */
            steps: number[];
            /** Total */
            total: number;
            /**
             * Values
             * @description by name, the value logged of the row at each step; null: none
             */
            values: {
                [key: string]: components["schemas"]["CellValue"][];
            };
            /**
             * Missing
             * @description why the record does not identify the steps of the row: these are the steps at which values of it were logged
             */
            missing?: string | null;
            /**
             * Unread
             * @description why values are too many to be read, so that none is here
             */
            unread?: string | null;
        };
        /**
         * SessionRequest
         * @description The token of the link that the server printed, of its token file, or of its provider.
         */
        SessionRequest: {
            /** Token */
            token: string;
        };
        /**
         * Statistics
         * @description Statistics of one tensor; NULLs and empty samples are those of ``counted`` of its ``rows``.
         *
         *     Where that is fewer, they are runs of rows that are spread evenly over all.
         */
        Statistics: {
            /** Tensor */
            tensor: string;
            /** Rows */
            rows: number;
            /** Counted */
            counted: number;
            /** Nulls */
            nulls: number;
            /**
             * Empty
             * @description samples without elements; null: none can be
             */
            empty: number | null;
            classes: components["schemas"]["ClassCounts"] | null;
            /** Histograms */
            histograms: components["schemas"]["Histogram"][];
        };
        /**
         * Step
         * @description A query over the rows so far, or some of their columns: one of both.
         */
        Step: {
            /** Tql */
            tql?: string | null;
            /** Params */
            params?: {
                [key: string]: unknown;
            } | null;
            /** Columns */
            columns?: string[] | null;
        };
        /**
         * StreamRequest
         * @description Batches of rows; defaults are those of ``ds.loader()``.
         */
        StreamRequest: {
            /** Version */
            version?: string | null;
            /** Digest */
            digest?: string | null;
            /** Steps */
            steps?: components["schemas"]["Step"][];
            /** Saved */
            saved?: string | null;
            /** View */
            view?: string | null;
            /** Columns */
            columns?: string[] | null;
            /** Batch Size */
            batch_size?: number | null;
            /** Global Batch Size */
            global_batch_size?: number | null;
            /**
             * Rank
             * @default 0
             */
            rank?: number;
            /**
             * World Size
             * @default 1
             */
            world_size?: number;
            /**
             * Drop Last
             * @default false
             */
            drop_last?: boolean;
            /**
             * Every
             * @description every how many-th batch
             * @default 1
             */
            every?: number;
            /**
             * Shuffle
             * @default false
             */
            shuffle?: boolean | ("full" | "window");
            /** Seed */
            seed?: number | null;
            /**
             * Epoch
             * @default 0
             */
            epoch?: number;
            /**
             * Batches
             * @description the rows of each, instead of sizes, ranks and a state
             */
            batches?: components["schemas"]["ListedRows"][];
            /**
             * State
             * @description a loader's; begins there
             */
            state?: {
                [key: string]: unknown;
            } | null;
            /**
             * Decode
             * @description steps of tl.decode, by column
             */
            decode?: {
                [key: string]: {
                    [key: string]: unknown;
                }[];
            };
            /**
             * Lists
             * @description columns whose samples stay apart
             */
            lists?: string[];
            /**
             * Null
             * @description what stands for NULL, by column
             */
            null?: {
                [key: string]: unknown;
            };
            /**
             * On Error
             * @default raise
             * @enum {string}
             */
            on_error?: "raise" | "skip";
            /**
             * Keeps Places
             * @description what is skipped is False in _valid
             * @default false
             */
            keeps_places?: boolean;
        };
        /**
         * Summary
         * @description The summary in place of a sample that JSON cannot hold, or that is too large.
         */
        Summary: {
            /**
             * $Summary
             * @enum {string}
             */
            $summary: "media" | "array" | "text" | "json" | "bytes" | "error";
            /** Nbytes */
            nbytes?: number | null;
            /** Media Type */
            media_type?: string | null;
            /** Dtype */
            dtype?: string | null;
            /** Shape */
            shape?: number[] | null;
            /**
             * Items
             * @description of a sequence: images play as frames
             */
            items?: number | null;
            preview?: components["schemas"]["CellValue"];
            /** Message */
            message?: string | null;
        };
        /**
         * TagRequest
         * @description A new tag, which never moves.
         */
        TagRequest: {
            /** Name */
            name: string;
            /**
             * At
             * @description main's newest when left out
             */
            at?: string | null;
        };
        /**
         * Tags
         * @description All tags.
         */
        Tags: {
            /** Tags */
            tags: components["schemas"]["Ref"][];
        };
        /**
         * TensorInfo
         * @description One column: its type, and what the viewer needs to draw it.
         */
        TensorInfo: {
            /** Name */
            name: string;
            /**
             * Kind
             * @description the type's tag: image, bbox, class_label, scalar, …
             */
            kind: string;
            /**
             * Type
             * @description as people write it: Image(jpeg)
             */
            type: string;
            /** Dtype */
            dtype: string | null;
            /** Shape */
            shape: (number | null)[] | null;
            /** Nullable */
            nullable: boolean;
            /** Media Type */
            media_type: string | null;
            /**
             * Picture
             * @description whether samples can be shown as images
             */
            picture: boolean;
            /**
             * Names
             * @description of classes, or of keypoints
             */
            names?: string[] | null;
            /**
             * Of
             * @description the image that coordinates refer to
             */
            of?: string | null;
            /**
             * Per
             * @description the tensor whose items are labelled
             */
            per?: string | null;
            /**
             * Format
             * @description order of a box's four numbers
             */
            format?: string | null;
            /**
             * Skeleton
             * @description keypoints drawn joined, by position
             */
            skeleton?: [
                number,
                number
            ][] | null;
        };
        /**
         * ThumbnailsRequest
         * @description Which samples, and how large: they fit into ``size`` × ``size``.
         */
        ThumbnailsRequest: {
            /** Tensor */
            tensor: string;
            /** Rows */
            rows: number[];
            /**
             * Size
             * @default 256
             */
            size?: number;
            /**
             * Window
             * @description values that are black and white: low,high, or auto
             */
            window?: string | null;
            /** Version */
            version?: string | null;
            /** View */
            view?: string | null;
        };
        /**
         * UpdatedRows
         * @description Rows that have another value of one tensor: their positions in both versions.
         */
        UpdatedRows: {
            /** Tensor */
            tensor: string;
            /** Count */
            count: number;
            /** Rows Before */
            rows_before: number[];
            /** Rows */
            rows: number[];
        };
        /**
         * Versions
         * @description Commits, the newest first; ``next`` continues, None at the first commit.
         */
        Versions: {
            /** Versions */
            versions: components["schemas"]["CommitInfo"][];
            /** Next */
            next: string | null;
        };
        /**
         * WindowInfo
         * @description Which values of a deep image are black and white by default, and which it has.
         */
        WindowInfo: {
            /** Low */
            low: number;
            /** High */
            high: number;
            /** Minimum */
            minimum: number;
            /** Maximum */
            maximum: number;
        };
        /**
         * AddNames
         * @description More classes of a class label.
         */
        AddNames: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            op: "add_names";
            /** Tensor */
            tensor: string;
            /** Names */
            names: string[];
        };
        /**
         * AddTensor
         * @description A new tensor; rows that exist get ``fill``, else the type's default, else NULL.
         */
        AddTensor: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            op: "add_tensor";
            /** Tensor */
            tensor: string;
            /** Type */
            type: string | {
                [key: string]: unknown;
            };
            /**
             * Fill
             * @default null
             */
            fill?: unknown;
        };
        /**
         * Append
         * @description New rows, at the end: values by tensor.
         */
        Append: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            op: "append";
            /** Columns */
            columns: {
                [key: string]: unknown[];
            };
        };
        /**
         * Delete
         * @description Rows that go.
         */
        Delete: {
            /**
             * Rows
             * @default null
             */
            rows?: number[] | null;
            /**
             * Where
             * @default null
             */
            where?: string | null;
            /** Params */
            params?: {
                [key: string]: unknown;
            };
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            op: "delete";
        };
        /**
         * DropTensor
         * @description A tensor that goes; older versions keep it.
         */
        DropTensor: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            op: "drop_tensor";
            /** Tensor */
            tensor: string;
        };
        /**
         * Insert
         * @description Rows that a query of the dataset gives, at the end; what it reads ends at the dataset.
         */
        Insert: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            op: "insert";
            /**
             * Tql
             * @example SELECT * WHERE label = $label LIMIT 100
             */
            tql: string;
            /** Params */
            params?: {
                [key: string]: unknown;
            };
            /**
             * Columns
             * @description the tensors that the outputs go to, in order; their own names if none
             * @default null
             */
            columns?: string[] | null;
        };
        /**
         * ProblemInfo
         * @description RFC 9457; ``line`` to ``stop`` are the place in a query's text.
         */
        ProblemInfo: {
            /** Type */
            type: string;
            /** Title */
            title: string;
            /** Status */
            status: number;
            /** Code */
            code: string;
            /** Detail */
            detail: string;
            /**
             * Line
             * @default null
             */
            line?: number | null;
            /**
             * Column
             * @default null
             */
            column?: number | null;
            /**
             * Start
             * @default null
             */
            start?: number | null;
            /**
             * Stop
             * @default null
             */
            stop?: number | null;
            /**
             * Conflict
             * @default null
             */
            conflict?: {
                [key: string]: unknown;
            } | null;
        };
        /**
         * RenameTensor
         * @description Another name for a tensor.
         */
        RenameTensor: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            op: "rename_tensor";
            /** Tensor */
            tensor: string;
            /** To */
            to: string;
        };
        /**
         * Tag
         * @description A name for the version that the transaction publishes; it never moves.
         */
        Tag: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            op: "tag";
            /** Name */
            name: string;
        };
        /**
         * TransactionRequest
         * @description Changes of one branch, published together or not at all.
         */
        TransactionRequest: {
            /** Operations */
            operations: (components["schemas"]["Append"] | components["schemas"]["Insert"] | components["schemas"]["Upsert"] | components["schemas"]["Update"] | components["schemas"]["Delete"] | components["schemas"]["AddTensor"] | components["schemas"]["DropTensor"] | components["schemas"]["RenameTensor"] | components["schemas"]["AddNames"] | components["schemas"]["Tag"])[];
            /**
             * Branch
             * @default main
             */
            branch?: string;
            /**
             * Message
             * @default
             */
            message?: string;
            /**
             * Base Version
             * @description the version that was read; the newest when left out
             * @default null
             */
            base_version?: string | null;
            /**
             * Key
             * @description sent again, it changes nothing
             * @default null
             */
            key?: string | null;
        };
        /**
         * Update
         * @description Values for rows of one tensor: ``values``, one a row, or one ``value`` for all.
         */
        Update: {
            /**
             * Rows
             * @default null
             */
            rows?: number[] | null;
            /**
             * Where
             * @default null
             */
            where?: string | null;
            /** Params */
            params?: {
                [key: string]: unknown;
            };
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            op: "update";
            /** Tensor */
            tensor: string;
            /**
             * Values
             * @default null
             */
            values?: unknown[] | null;
            /**
             * Value
             * @default null
             */
            value?: unknown;
        };
        /**
         * Upsert
         * @description Rows by key: where it is known the row gets the values, else it is appended.
         */
        Upsert: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            op: "upsert";
            /** Columns */
            columns: {
                [key: string]: unknown[];
            };
            /** On */
            on: string[];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    list_objects: {
        parameters: {
            query?: {
                prefix?: string;
                after?: string;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ObjectList"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    list_folders: {
        parameters: {
            query?: {
                prefix?: string;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FolderList"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_object: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    put_object: {
        parameters: {
            query?: {
                /** @description false: losing it changes nothing */
                durable?: boolean;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    look_up_object: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    list_datasets: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatasetList"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    create_dataset: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "pets",
                 *       "schema": {
                 *         "image": {
                 *           "kind": "image",
                 *           "codec": "jpeg",
                 *           "nullable": true
                 *         },
                 *         "label": {
                 *           "kind": "class_label",
                 *           "names": [
                 *             "cat",
                 *             "dog"
                 *           ]
                 *         },
                 *         "score": "float32",
                 *         "vector": {
                 *           "kind": "embedding",
                 *           "dim": 2
                 *         }
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["CreateRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatasetName"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    describe_dataset: {
        parameters: {
            query?: {
                /**
                 * @description branch, tag or commit; main when left out
                 * @example main@1
                 */
                version?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatasetInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    delete_dataset: {
        parameters: {
            query: {
                /** @description the name again */
                confirm: string;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatasetDeleted"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    list_versions: {
        parameters: {
            query?: {
                /**
                 * @description branch, tag or commit; main when left out
                 * @example main@1
                 */
                version?: string | null;
                /** @example 10 */
                limit?: number;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Versions"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    list_branches: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Branches"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    create_branch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "labels-ana"
                 *     }
                 */
                "application/json": components["schemas"]["BranchRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ref"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    list_tags: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tags"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    create_tag: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "v1",
                 *       "at": "main@1"
                 *     }
                 */
                "application/json": components["schemas"]["TagRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ref"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    diff_versions: {
        parameters: {
            query: {
                a: string;
                b?: string | null;
                /** @example 10 */
                limit?: number;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiffInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_page: {
        parameters: {
            query?: {
                /**
                 * @description main when left out
                 * @example main@1
                 */
                version?: string | null;
                /** @description id of a query's result */
                view?: string | null;
                /** @description the version must have it */
                digest?: string | null;
                offset?: number;
                /** @example 10 */
                limit?: number;
                /**
                 * @description names, by commas; all if left out; `_row`, `_row_id` and `_source` may be among them
                 * @example label,score
                 */
                columns?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RowsPage"];
                    "application/vnd.apache.arrow.stream": string;
                    "application/x-npz": string;
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    open_result: {
        parameters: {
            query: {
                /** @description id of a query's result */
                view: string;
                /** @example 10 */
                limit?: number;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueryResult"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    run_query: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "tql": "WHERE label = $label",
                 *       "params": {
                 *         "label": "dog"
                 *       },
                 *       "limit": 10
                 *     }
                 */
                "application/json": components["schemas"]["QueryRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueryResult"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    select_rows: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "steps": [
                 *         {
                 *           "tql": "WHERE score > 0.5"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["AskedRows"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-npz": string;
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    explain_query: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "tql": "WHERE score > 0.5 ORDER BY score DESC LIMIT 10"
                 *     }
                 */
                "application/json": components["schemas"]["ExplainRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Explanation"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    complete_query: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "tql": "WHERE sco",
                 *       "cursor": 9
                 *     }
                 */
                "application/json": components["schemas"]["CompletionRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Completions"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    search_rows: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "column": "vector",
                 *       "query": [
                 *         1,
                 *         0
                 *       ],
                 *       "k": 1
                 *     }
                 */
                "application/json": components["schemas"]["SearchRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SearchResult"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    find_label_issues: {
        parameters: {
            query: {
                /** @description a probability for each class */
                pred_probs: string;
                /**
                 * @description main when left out
                 * @example main@1
                 */
                version?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example label
                 */
                tensor: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LabelIssues"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    find_duplicates: {
        parameters: {
            query?: {
                /** @description bits of an image's hash, or the least similarity of texts or vectors */
                threshold?: number | null;
                /**
                 * @description main when left out
                 * @example main@1
                 */
                version?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example label
                 */
                tensor: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Duplicates"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    list_saved: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedViews"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    save_view: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "dogs",
                 *       "view": "the `view` of a query's result",
                 *       "message": "for ana"
                 *     }
                 */
                "application/json": components["schemas"]["SaveViewRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedViewInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    open_saved: {
        parameters: {
            query?: {
                /** @example 10 */
                limit?: number;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /** @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows */
                view: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueryResult"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_info: {
        parameters: {
            query?: {
                /**
                 * @description main when left out
                 * @example main@1
                 */
                version?: string | null;
                /** @description `row` is a position in its result */
                view?: string | null;
                /** @description the version must have it */
                digest?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example label
                 */
                tensor: string;
                /** @example 0 */
                row: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MediaInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_peaks: {
        parameters: {
            query?: {
                stretches?: number;
                /**
                 * @description main when left out
                 * @example main@1
                 */
                version?: string | null;
                /** @description `row` is a position in its result */
                view?: string | null;
                /** @description the version must have it */
                digest?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example label
                 */
                tensor: string;
                /** @example 0 */
                row: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PeaksInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_scene: {
        parameters: {
            query?: {
                /** @description of points, instead of their colour */
                field?: string | null;
                /**
                 * @description main when left out
                 * @example main@1
                 */
                version?: string | null;
                /** @description `row` is a position in its result */
                view?: string | null;
                /** @description the version must have it */
                digest?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example label
                 */
                tensor: string;
                /** @example 0 */
                row: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-npz": string;
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_sample: {
        parameters: {
            query?: {
                /**
                 * @description main when left out
                 * @example main@1
                 */
                version?: string | null;
                /** @description `row` is a position in its result */
                view?: string | null;
                /** @description the version must have it */
                digest?: string | null;
                size?: number | null;
                /** @description one item of a sequence, a video or a volume */
                frame?: number | null;
                /** @description of a volume: across the frames */
                axis?: number;
                /** @description of a deep image, which is then drawn: low,high, or auto */
                window?: string | null;
                /** @description the stored bytes, to download */
                raw?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example label
                 */
                tensor: string;
                /** @example 0 */
                row: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_window: {
        parameters: {
            query?: {
                /**
                 * @description main when left out
                 * @example main@1
                 */
                version?: string | null;
                /** @description `row` is a position in its result */
                view?: string | null;
                /** @description the version must have it */
                digest?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example label
                 */
                tensor: string;
                /** @example 0 */
                row: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WindowInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_thumbnails: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "tensor": "image",
                 *       "rows": [
                 *         0,
                 *         1
                 *       ],
                 *       "size": 128
                 *     }
                 */
                "application/json": components["schemas"]["ThumbnailsRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.tensorlake.frames": string;
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_statistics: {
        parameters: {
            query?: {
                /**
                 * @description main when left out
                 * @example main@1
                 */
                version?: string | null;
                /** @description id of a query's result */
                view?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example label
                 */
                tensor: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Statistics"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_pair_statistics: {
        parameters: {
            query?: {
                /**
                 * @description main when left out
                 * @example main@1
                 */
                version?: string | null;
                /** @description id of a query's result */
                view?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example label
                 */
                tensor: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example score
                 */
                other: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PairStatistics"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_projection: {
        parameters: {
            query?: {
                /**
                 * @description main when left out
                 * @example main@1
                 */
                version?: string | null;
                /** @description a class label, number or boolean of each row */
                color?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example label
                 */
                tensor: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-npz": string;
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    list_runs: {
        parameters: {
            query?: {
                /** @description the name to continue after */
                after?: string | null;
                /** @example 10 */
                limit?: number;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunList"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_run: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /** @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunDetails"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_metric: {
        parameters: {
            query?: {
                start?: number;
                stop?: number | null;
                points?: number;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /** @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows */
                run: string;
                /** @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows */
                metric: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Curve"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_step: {
        parameters: {
            query?: {
                /**
                 * @description whose rows are listed; main when left out
                 * @example main@1
                 */
                version?: string | null;
                /** @description all when left out */
                rank?: number | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /** @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows */
                run: string;
                step: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunStep"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_seen: {
        parameters: {
            query?: {
                /**
                 * @description whose rows are listed; main when left out
                 * @example main@1
                 */
                version?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /** @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows */
                run: string;
                /**
                 * @description of the version
                 * @example 0
                 */
                row: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SeenSteps"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    stream_batches: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "columns": [
                 *         "score"
                 *       ],
                 *       "batch_size": 2,
                 *       "shuffle": true,
                 *       "seed": 1
                 *     }
                 */
                "application/json": components["schemas"]["StreamRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.apache.arrow.stream": string;
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    commit_transaction: {
        parameters: {
            query?: {
                /**
                 * @description of an Arrow body; main if none
                 * @example labels-ana
                 */
                branch?: string | null;
                /** @description of an Arrow body */
                message?: string | null;
                /** @description of an Arrow body */
                base_version?: string | null;
                /** @description of an Arrow body */
                key?: string | null;
            };
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "message": "two pets",
                 *       "key": "import-7/1",
                 *       "operations": [
                 *         {
                 *           "op": "append",
                 *           "columns": {
                 *             "image": [
                 *               null,
                 *               null
                 *             ],
                 *             "label": [
                 *               "cat",
                 *               "dog"
                 *             ],
                 *             "score": [
                 *               0.25,
                 *               0.75
                 *             ],
                 *             "vector": [
                 *               [
                 *                 1,
                 *                 0
                 *               ],
                 *               [
                 *                 0,
                 *                 1
                 *               ]
                 *             ]
                 *           }
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["TransactionRequest"];
                "application/vnd.apache.arrow.stream": string;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Committed"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    delete_branch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example labels-ana
                 */
                branch: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    delete_tag: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example v1
                 */
                tag: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    merge: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "source": "labels-ana",
                 *       "branch": "main"
                 *     }
                 */
                "application/json": components["schemas"]["MergeRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Merged"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    optimize: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "branch": "main"
                 *     }
                 */
                "application/json": components["schemas"]["OptimizeRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Optimized"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    restore: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "restored": "main@1",
                 *       "branch": "main"
                 *     }
                 */
                "application/json": components["schemas"]["RestoreRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Committed"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    stream_events: {
        parameters: {
            query?: {
                /** @example labels-ana */
                branch?: string;
                /** @description a commit: those after it */
                after?: string | null;
                /** @description false: those that are there, and no more */
                wait?: boolean;
            };
            header?: {
                "last-event-id"?: string | null;
            };
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    export_rows: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description `~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and `!` follows
                 * @example pets
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "format": "parquet",
                 *       "steps": [
                 *         {
                 *           "tql": "WHERE score > 0.5"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ExportRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExportInfo"];
                };
            };
            /** @description a job, with `Prefer: respond-async` */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    download_export: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                export: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    delete_export: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                export: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    list_jobs: {
        parameters: {
            query?: {
                /** @example 10 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobList"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    read_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Accepted */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    cancel_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                job: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    list_flows: {
        parameters: {
            query?: {
                /** @description its name */
                flow?: string | null;
                /** @example 10 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowList"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    inspect_flow: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                flow: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    retry_flow: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                flow: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    cancel_flow: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                flow: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    approve_flow: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                flow: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "decision": true
                 *     }
                 */
                "application/json": components["schemas"]["ApprovalRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
    open_session: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "token": "tl_3f2a90c1_…"
                 *     }
                 */
                "application/json": components["schemas"]["SessionRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "4XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
            /** @description what went wrong, as RFC 9457 problem JSON */
            "5XX": {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["ProblemInfo"];
                };
            };
        };
    };
}
