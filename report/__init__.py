"""The claims of this paper and the page that answers them; it runs from a clone, like verification/."""
