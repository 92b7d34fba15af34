"""The main job: choose what to plan and for which traffic, plan, judge on held-out traffic, and tell when it drifts."""
