/** Returns the counters of reading, without those of caches and failures. */

export const cost = ({ requests, roundTrips, bytesFetched }) => ({ requests, roundTrips, bytesFetched });
