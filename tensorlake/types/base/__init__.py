"""What every type builds on: `SampleType`, columns, dtypes, casting and the registry."""
