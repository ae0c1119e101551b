"""Every word of a report, by subject: one entry per text, English and Chinese beside each other."""
