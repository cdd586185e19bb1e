"""What the centre measures: its own promises, jobs, clusters, prices, and what people say."""
