"""The application: routes, health checks and the viewer's files."""
