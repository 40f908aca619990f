/** Something that a view shows once it is there. */

import { useCallback, useEffect, useState } from "react";
import { type Failure, failureOf } from "../player/failure";

export interface Loaded<T> {
  value?: T;
  failure?: Failure;
  isLoading: boolean;
  reload: () => Promise<void>;
}

/** Loads at once and whenever it is told to; what was there stays until then. */
export function useLoaded<T>(load: () => Promise<T>): Loaded<T> {
  const [{ value, failure, isLoading }, set] = useState<{
    value?: T;
    failure?: Failure;
    isLoading: boolean;
  }>({ isLoading: true });
  const reload = useCallback(async () => {
    set((now) => ({ ...now, isLoading: true }));
    try {
      const value = await load();
      set({ value, isLoading: false });
    } catch (error) {
      set({ failure: failureOf(error), isLoading: false });
    }
  }, [load]);
  useEffect(() => void reload(), [reload]);
  return { value, failure, isLoading, reload };
}
