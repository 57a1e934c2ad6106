/** How many times slower than they are pages shall be; 1 unless VIEWER_SLOW says more. */
export const SLOWNESS = Number(process.env.VIEWER_SLOW ?? "1");
