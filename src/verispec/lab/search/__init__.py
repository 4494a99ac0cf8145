"""Search over settings: a declared space, halved as fast as the noise allows, its winner put to fresh data."""
