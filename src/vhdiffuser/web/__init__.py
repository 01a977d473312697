"""The web page and its server: an application created by `vhdiffuser.web.app.create_app`."""
