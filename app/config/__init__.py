"""The configuration file and the environment, validated as a whole."""
