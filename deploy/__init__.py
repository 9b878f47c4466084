"""What goes beside the service: dashboards, what the image holds and what is known of it."""
