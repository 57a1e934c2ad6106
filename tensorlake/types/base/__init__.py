"""The basis of all types: `SampleType`, columns, dtypes, casting and the registry."""
