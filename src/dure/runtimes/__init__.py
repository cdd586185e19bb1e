"""Container runtimes, and the ways to keep a container from the GPU and let it go again."""
