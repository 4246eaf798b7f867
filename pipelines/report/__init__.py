"""``weir report``: a page, a picture, a statement to sign, and a table of the last values.

``data`` gathers what is shown, ``words`` has its sentences, ``figures`` its charts in order,
``page`` the HTML, ``picture`` the image, ``report`` all of it.
"""

__all__ = ["data", "page", "report"]
